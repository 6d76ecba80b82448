// Observer nodes of a step in parts: the range that they observe is that of the whole batch.
#pragma once

#include <set>
#include <string>

#include <ATen/core/Tensor.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/training/batch_parts.h"

namespace octet {

// Throws Error("train", ...) for what a step in parts cannot do as one process would: observers
// that look at more than minimum and maximum, batch norms of decomposed programs and instance norms
// with running statistics, and branches and loops, whose ways could differ from part to part.
void check_parts(const ObservedGraph& prepared);

// Names of the observer nodes that see what is computed of the user inputs. The others see the same
// in each part.
std::set<std::string> points_of_batch(const Graph& prepared);

// Observer::forward for x that is this part of the batch, after one exchange of the ends while the
// observer observes. Throws as it does, and Error("train", "", ...) for NaN and infinities.
at::Tensor forward_part(Observer& observer, const at::Tensor& x, BatchParts& parts);

}  // namespace octet
