// Implements the options and the training loop of `octet qat`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/training/batch_parts.h"
#include "annotate/training/qat_model.h"
#include "core/graph/graph.h"
#include "tools/cli/common/options.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/checkpoint.h"

namespace torch::optim {
class Optimizer;
}

namespace octet {

// Divides each training step among processes: each runs some rows of the batch, and all apply the
// gradients of the whole batch.
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

enum class Loss {
  // on the first output, [N, classes, ...], with class numbers as targets; counts accuracy
  kCrossEntropy,
  kMse,  // mean squared error of the first output
  // mean squared difference between each output and that of the float model; needs no target
  kDistill
};
enum class OptimizerKind { kSgd, kAdamW };
// Schedule of the learning rate; kCosine lowers it to 0 step by step until the last epoch ends
enum class Schedule { kConstant, kCosine };

struct TrainOptions {
  // DATA.pt: a list of tuples, each the model's inputs and then the target
  std::string train;
  std::string validation;             // in the same form; may be empty
  std::optional<size_t> max_batches;  // most to read from `train`
  Loss loss = Loss::kCrossEntropy;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double rate = 0.01;
  Schedule schedule = Schedule::kConstant;
  double momentum = 0.9;  // for SGD
  double weight_decay = 0;
  int64_t epochs = 1;
  // number of epochs after which ranges and batch norm statistics are frozen
  std::optional<int64_t> freeze_after;
  // number of epochs after which the scales of learnable fake-quants are trained, until
  // freeze_after
  std::optional<int64_t> learn_ranges;
  // stop after this many epochs without a lower loss (on validation data if given), and use the
  // best epoch
  std::optional<int64_t> patience;
  int64_t seed = 0;   // for the order of batches and for dropout
  std::string state;  // from `octet calibrate`: initial ranges; may be empty
  // written while training; training resumes from it if it exists; may be empty
  std::string checkpoint;
  std::optional<int64_t> checkpoint_every;  // batches; default: each epoch
  std::string flow;  // how the program was prepared (text_of_flow()), for the checkpoint
};

Options options_of(TrainOptions& options);

// The order of the batches in an epoch, which depends only on the arguments.
std::vector<size_t> order_of_batches(size_t count, int64_t seed, int64_t epoch);

class QatTrainer {
 public:
  // float_model: the program before prepare, for kDistill. step: the one that `model` was made with
  // if there are several processes. All must outlive this. Throws Error("train", ...) if nothing is
  // trainable, for data that do not fit, and for a checkpoint of another run.
  QatTrainer(QatModel& model, const Graph& float_model, TrainOptions options, SharedStep& step);
  ~QatTrainer();

  // Runs all epochs and prints a line for each on stderr. Leaves the model ready for convert, in
  // each process; only process 0 writes checkpoints. Throws Error("train", ...) when the loss is
  // not finite, and for data that do not fit.
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octet
