// One observer for each group of edges and values that share one.
#pragma once

#include <memory>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/sharing.h"
#include "annotate/observers/observer.h"
#include "annotate/prepare/opaque_prepare.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// What the observer nodes are for: calibration, or training, where values of fixed scale are
// fake-quantized.
enum class Purpose { kCalibration, kTraining };

// By group. Throws Error("prepare", ...) as make_observer does, and for derived specs that go in a
// circle or derive from what has no spec.
std::vector<std::shared_ptr<Observer>> make_group_observers(const SharingGroups& groups,
                                                            Purpose purpose, Compat compat);

// Lets the quantizers change the observers (prepare_obs_or_fq_callback). Afterwards a group is what
// has one observer, numbered in the order of the members. Throws Error("prepare", ...) for an
// observer where no spec stands.
void ask_for_observers(const OpaquePrepare& quantizers, const Graph& graph, SharingGroups& groups,
                       std::vector<std::shared_ptr<Observer>>& observers);

// Puts observer nodes into a graph.

enum class BufferWrites { kIgnored, kWatched };

// An observer node for each annotated edge and value of one graph: of each node its inputs come
// first, then its output, node by node in graph order; what shares an observer shares a node where
// it can. The observers of its groups are those from `first_group` on. kWatched: a tensor that is
// changed in place between its making and its use is observed at its use. A quantized tensor is a
// copy: where a write to the tensor or to a view of it would miss the copy or the original, no
// observer is inserted, and the report says so. torchao observes what the tensor was before, and
// loses the write. Annotated edges of tensors that are not floating point are reported and left
// alone.
void insert_observer_nodes(Graph& graph, const Annotations& annotations,
                           const SharingGroups& groups, size_t first_group, Report& report,
                           BufferWrites writes);

}  // namespace octet
