// The options of training, for the command, checkpoints and Python.
#include "tools/cli/qat/train.h"

#include "tools/cli/common/sample_data.h"

namespace octet {

Options options_of(TrainOptions& options) {
  return {
      Option{"train", &options.train,
             "torch.save of a list of tuples: the model's inputs, then the target"}
          .of_kind(Option::Kind::kData)
          .required()
          .without_key(),
      Option{"validation", &options.validation, "Data like --train to evaluate after each epoch"}
          .of_kind(Option::Kind::kData)
          .without_key(),
      max_batches_option(options.max_batches, "--train"),
      Option{"loss",
             named(options.loss, {{"cross_entropy", Loss::kCrossEntropy},
                                  {"distill", Loss::kDistill},
                                  {"mse", Loss::kMse}}),
             "cross_entropy (class numbers), mse, or distill: the squared difference from the "
             "outputs of the float model"},
      Option{"optimizer",
             named(options.optimizer,
                   {{"adamw", OptimizerKind::kAdamW}, {"sgd", OptimizerKind::kSgd}}),
             "sgd or adamw"},
      Option{"epochs", &options.epochs, "Passes over the training data"}.positive().without_key(),
      Option{"lr", &options.rate, "Learning rate"}.positive(),
      Option{"schedule",
             named(options.schedule,
                   {{"constant", Schedule::kConstant}, {"cosine", Schedule::kCosine}}),
             "Learning rate schedule; cosine: falls to 0 over all epochs"},
      Option{"momentum", &options.momentum, "Momentum of sgd"}.between(0, 1),
      Option{"weight_decay", &options.weight_decay,
             "Weight decay: sgd adds it, times the parameter, to the gradient; adamw to the step"}
          .not_negative(),
      Option{"freeze_after", &options.freeze_after,
             "Epochs after which ranges and batch norm statistics are frozen"}
          .not_negative(),
      Option{"state", &options.state,
             "The ranges to start from, as octet calibrate wrote them for the same model"}
          .file()
          .without_key(),
      Option{"learn_ranges", &options.learn_ranges,
             "Epochs after which scales of static activations and of weights are trained too "
             "(LSQ); 0: from the first batch on"}
          .not_negative(),
      Option{"patience", &options.patience,
             "Stop after this many epochs without a lower loss, and use the best epoch"}
          .positive()
          .without_key(),
      Option{"seed", &options.seed, "Random seed of the order of the batches and of dropout"},
      Option{"checkpoint", &options.checkpoint,
             "A file for the state of training; when it exists, training resumes from it"}
          .file()
          .without_key(),
      Option{"checkpoint_every", &options.checkpoint_every,
             "Batches between checkpoints; default: an epoch"}
          .positive()
          .without_key(),
  };
}

}  // namespace octet
