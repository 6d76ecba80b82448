// A training step whose batch is run in parts, each by another process: what they tell each other
// so that the step is that of the whole batch. Fake-quants see the range of the whole batch, batch
// norms its statistics.
#pragma once

#include <set>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/graph/graph.h"

namespace octet {

// Of the step that runs.
struct BatchPart {
  double share = 1;  // of the batch's rows that are run here, in (0, 1]
  // false: the batch has fewer rows than there are parts, and the row that is run here is another
  // part's; its loss is multiplied with 0
  bool counts = true;
};

class BatchParts : public Peers {
 public:
  virtual BatchPart part() const = 0;
};

// Observer nodes of a step in parts: the range that they observe is that of the whole batch.

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

// Batch norms of a step in parts, with the statistics of the whole batch.

// aten.batch_norm, with gradients: for node and arguments as a Handler gets them. In training mode
// mean and variance are those of all parts, forward and backward, and so are the running statistics
// that it writes; each part has one exchange of 2 * channels + 1 numbers forward and one of 2 *
// channels backward. Gradients of gamma and beta are this part's alone. In evaluation mode it is
// the op. Throws Error("train", ...) when the parts together have fewer than two values a channel.
std::vector<c10::IValue> run_shared_batch_norm(const Node& node,
                                               const std::vector<c10::IValue>& arguments,
                                               BatchParts& parts);

}  // namespace octet
