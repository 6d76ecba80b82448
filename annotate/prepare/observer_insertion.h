// Creates the observers of a graph, one per sharing group, and inserts the observer nodes.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/sharing.h"
#include "annotate/observers/observer.h"
#include "annotate/prepare/opaque_prepare.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// Calibration, or training, where values of fixed scale are fake-quantized too.
enum class Purpose { kCalibration, kTraining };

// Creates the observers, by group. Throws Error("prepare", ...) as make_observer does, and for
// derived specs that form a circle or derive from something without a spec.
std::vector<std::shared_ptr<Observer>> make_group_observers(const SharingGroups& groups,
                                                            Purpose purpose, Compat compat);

// Lets the quantizers change the observers (prepare_obs_or_fq_callback). Afterwards the groups are
// those places that have one observer, numbered in the order of the members. Throws
// Error("prepare", ...) for an observer in a place without a spec.
void ask_for_observers(const OpaquePrepare& quantizers, const Graph& graph, SharingGroups& groups,
                       std::vector<std::shared_ptr<Observer>>& observers);

// kWatched: a tensor that is changed in place between its definition and its use is observed at the
// use.

enum class BufferWrites { kIgnored, kWatched };

// Inserts an observer node for each annotated edge and value of one graph: node by node in graph
// order, for each node first its inputs, then its output. Places that share an observer share a
// node where possible. The observers of the graph's groups start at `first_group`.
//
// A quantized tensor is a copy. Where a write to the tensor or to a view of it would miss the copy
// or the original, no observer is inserted, and the report says so; torchao observes the tensor's
// earlier content and loses the write. Annotated edges of tensors that are not floating point are
// reported and skipped.
void insert_observer_nodes(Graph& graph, const Annotations& annotations,
                           const SharingGroups& groups, size_t first_group, Report& report,
                           BufferWrites writes);

}  // namespace octet
