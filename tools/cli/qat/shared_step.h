// Training in several processes: each runs a part of the rows of each batch, and all take the same
// step, that of the whole batch.
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
  // model: its inputs tell what rows are. Both must outlive this.
  SharedStep(Processes& processes, const Graph& model);

  bool is_alone() const { return processes_.count() == 1; }
  bool is_first() const { return processes_.rank() == 0; }
  size_t rank() const override { return processes_.rank(); }
  size_t count() const override { return processes_.count(); }

  // This process's rows of the batch, which the next step is about: of each input whose first
  // dimension is the batch's, and of the targets behind the inputs. Rows that do not divide evenly
  // go to the first processes; a process without any gets the first row, which does not count.
  // Throws Error("train", subject, ...) when the batch is not one to be divided.
  std::vector<c10::IValue> rows_of(const std::vector<c10::IValue>& batch,
                                   const std::string& subject);
  // Throws Error("train", subject, ...) when the batch has fewer rows than there are processes.
  void check_rows(const std::vector<c10::IValue>& batch, const std::string& subject);
  // Of the rows, which the mean over this process's counts with.
  double weight() const { return part_.counts ? part_.share : 0; }
  // Random numbers of this process in this step, whichever were before.
  void seed(int64_t seed, int64_t epoch, int64_t batch) const;
  // The gradients of what the optimizer trains become the sums over the processes; in one exchange.
  void sum_gradients(torch::optim::Optimizer& optimizer);
  // Over all processes, in each.
  RunningLoss sum(const RunningLoss& sums);
  // Throws Error("train", ...) when the processes' tensors differ.
  void check_equal(const std::vector<at::Tensor>& tensors);

  // A line on what the processes gave each other in a step, on average.
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
  std::vector<const Value*> inputs_;  // one for each of the user's
  BatchPart part_;
  int64_t rows_ = 0;  // of the whole batch
  std::vector<float> gradients_;
  size_t steps_ = 0;
};

}  // namespace octet
