// The options and the loop of training in `octet qat`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotate/training/qat_model.h"
#include "core/graph/graph.h"
#include "tools/cli/common/options.h"
#include "tools/cli/qat/shared_step.h"

namespace octet {

enum class Loss {
  // of the first output, [N, classes, ...], with the target's class numbers; accuracy is counted
  kCrossEntropy,
  kMse,  // of the first output, with a target of its shape
  // mean squared difference between each output and that of the float model; needs no target
  kDistill
};
enum class OptimizerKind { kSgd, kAdamW };
// of the learning rate; cosine: down to 0 at the end of the last epoch, step by step
enum class Schedule { kConstant, kCosine };

struct TrainOptions {
  // DATA.pt: a list of tuples, the model's inputs and then the target
  std::string train;
  std::string validation;             // in that form, too; may be empty
  std::optional<size_t> max_batches;  // of `train`
  Loss loss = Loss::kCrossEntropy;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double rate = 0.01;
  Schedule schedule = Schedule::kConstant;
  double momentum = 0.9;  // of SGD
  double weight_decay = 0;
  int64_t epochs = 1;
  // epochs after which ranges and batch norm statistics stay as they are
  std::optional<int64_t> freeze_after;
  // epochs after which scales of learnable fake-quants are trained, until freeze_after
  std::optional<int64_t> learn_ranges;
  // stop after so many epochs without a lower loss (of validation if there is some), and take the
  // best epoch
  std::optional<int64_t> patience;
  int64_t seed = 0;   // of the order of batches and of dropout
  std::string state;  // of `octet calibrate`: the ranges to begin with; may be empty
  // written while training, and continued from when it is there; may be empty
  std::string checkpoint;
  std::optional<int64_t> checkpoint_every;  // batches; default: each epoch
  std::string flow;  // how the program was prepared (text_of_flow()), for the checkpoint
};

Options options_of(TrainOptions& options);

class QatTrainer {
 public:
  // float_model: the program before it was prepared, for kDistill. step: what `model` was made with
  // where there are several processes. All must outlive this. Throws
  // Error("train", ...) when nothing is trainable, for data that do not fit, and for a checkpoint
  // of another run.
  QatTrainer(QatModel& model, const Graph& float_model, TrainOptions options, SharedStep& step);
  ~QatTrainer();

  // Runs all epochs, with a line for each on stderr. Leaves the model as it is to be
  // converted, in each process; process 0 alone writes checkpoints. Throws Error("train", ...) when
  // the loss is not finite, and for data that do not fit.
  void run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octet
