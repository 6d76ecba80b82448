// Divides each training step among processes: each runs some rows of the batch, and all apply the
// gradients of the whole batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/training/batch_parts.h"
#include "core/graph/graph.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/checkpoint.h"

namespace torch::optim {
class Optimizer;
}

namespace octet {

class SharedStep : public BatchParts {
 public:
  // model: its inputs determine which dimension is the batch. Both must outlive this.
  SharedStep(Processes& processes, const Graph& model);

  bool is_alone() const { return processes_.count() == 1; }
  bool is_first() const { return processes_.rank() == 0; }
  size_t rank() const override { return processes_.rank(); }
  size_t count() const override { return processes_.count(); }

  // Selects this process's rows of the batch for the next step: from each input whose first
  // dimension is the batch, and from the targets after the inputs. If rows do not divide evenly,
  // the first processes get one more. A process without rows gets the first row with weight 0.
  // Throws Error("train", subject, ...) if the batch cannot be divided.
  std::vector<c10::IValue> rows_of(const std::vector<c10::IValue>& batch,
                                   const std::string& subject);
  // Throws Error("train", subject, ...) if the batch has fewer rows than there are processes.
  void check_rows(const std::vector<c10::IValue>& batch, const std::string& subject);
  // The weight of this process's mean: its share of the batch's rows.
  double weight() const { return part_.counts ? part_.share : 0; }
  // Seeds the random numbers of this process for this step, independently of earlier steps.
  void seed(int64_t seed, int64_t epoch, int64_t batch) const;
  // Sums the gradients of the optimizer's parameters over all processes, in one exchange.
  void sum_gradients(torch::optim::Optimizer& optimizer);
  // Returns the sums over all processes, in each.
  RunningLoss sum(const RunningLoss& sums);
  // Throws Error("train", ...) if the tensors differ between processes.
  void check_equal(const std::vector<at::Tensor>& tensors);

  // A line on the data that the processes exchanged per step, on average.
  std::string traffic() const;

  BatchPart part() const override { return part_; }
  void sum(std::span<double> numbers) override { processes_.sum(numbers); }
  void min(std::span<float> numbers) override { processes_.min(numbers); }
  std::vector<std::string> share(const std::string& text) override {
    return processes_.share(text);
  }

 private:
  bool is_divided(const at::Tensor& tensor, const Value* input) const;

  Processes& processes_;
  std::vector<const Value*> inputs_;  // one for each user input
  BatchPart part_;
  int64_t rows_ = 0;  // rows of the whole batch
  std::vector<float> gradients_;
  size_t steps_ = 0;
};

}  // namespace octet
