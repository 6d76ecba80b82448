// Splits the batch of a training step across processes, with the result of a single process:
// fake-quants see the range of the whole batch, batch norms its statistics.
#pragma once

#include <set>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/graph/graph.h"

namespace octet {

// The part of the current step.
struct BatchPart {
  double share = 1;  // share of the batch's rows in this process, in (0, 1]
  // false: the batch has fewer rows than there are processes, so this one runs a row of another
  // part and multiplies its loss by 0
  bool counts = true;
};

class BatchParts : public Peers {
 public:
  virtual BatchPart part() const = 0;
};

// Throws Error("train", ...) for programs whose steps cannot be split: observers that need more
// than minimum and maximum, batch norms of decomposed programs and instance norms with running
// statistics, and branches and loops, which could take different ways in different processes.
void check_parts(const ObservedGraph& prepared);

// Names of the observer nodes that see values computed from user inputs. The others see the same
// values in every process.
std::set<std::string> points_of_batch(const Graph& prepared);

// Observer::forward for this process's part x of the batch, after exchanging minimum and maximum
// while the observer observes. Throws as it does, and Error("train", "", ...) for NaN and
// infinities.
at::Tensor forward_part(Observer& observer, const at::Tensor& x, BatchParts& parts);

// aten.batch_norm with gradients and the statistics of the whole batch; arguments as for a Handler.
// In training mode mean and variance are those of all parts, forward and backward, and so are the
// running statistics that it writes. Each process exchanges 2 * channels + 1 numbers forward and 2
// * channels backward. Gradients of gamma and beta are those of this part. In evaluation mode it
// runs the op. Throws Error("train", ...) when the parts together have fewer than two values per
// channel.
std::vector<c10::IValue> run_shared_batch_norm(const Node& node,
                                               const std::vector<c10::IValue>& arguments,
                                               BatchParts& parts);

}  // namespace octet
