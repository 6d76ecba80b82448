// Puts observer nodes into a graph.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/sharing.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

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
