// Batch norms of a step in parts, with the statistics of the whole batch.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>

#include "annotate/training/batch_parts.h"
#include "core/graph/graph.h"

namespace octet {

// aten.batch_norm, with gradients: for node and arguments as a Handler gets them. In training mode
// mean and variance are those of all parts, forward and backward, and so are the running statistics
// that it writes; each part has one exchange of 2 * channels + 1 numbers forward and one of 2 *
// channels backward. Gradients of gamma and beta are this part's alone. In evaluation mode it is
// the op. Throws Error("train", ...) when the parts together have fewer than two values a channel.
std::vector<c10::IValue> run_shared_batch_norm(const Node& node,
                                               const std::vector<c10::IValue>& arguments,
                                               BatchParts& parts);

}  // namespace octet
