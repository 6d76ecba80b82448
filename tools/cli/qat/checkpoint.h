// Saves and restores the state of training, so that an interrupted run resumes and gives the same
// bits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/training/qat_model.h"

namespace torch::optim {
class Optimizer;
}

namespace octet {

struct TrainOptions;

// Accumulates the mean loss and the accuracy of an epoch.
class RunningLoss {
 public:
  // loss: the mean over `samples`.
  void add(double loss, int64_t samples) { add_sum(loss * static_cast<double>(samples), samples); }
  void add_sum(double sum, int64_t samples) {
    sum_ += sum;
    samples_ += samples;
  }
  void add_right(int64_t count) {
    right_ += count;
    is_classified_ = true;
  }
  double loss() const { return samples_ == 0 ? 0 : sum_ / static_cast<double>(samples_); }
  double accuracy() const {
    return samples_ == 0 ? 0 : static_cast<double>(right_) / static_cast<double>(samples_);
  }
  bool is_classified() const { return is_classified_; }

  std::vector<double> numbers() const {
    return {sum_, static_cast<double>(samples_), static_cast<double>(right_),
            is_classified_ ? 1.0 : 0.0};
  }
  static RunningLoss from_numbers(const double* numbers);

 private:
  double sum_ = 0;
  int64_t samples_ = 0;
  int64_t right_ = 0;
  bool is_classified_ = false;
};

struct TrainingPosition {
  int64_t epoch = 0;  // finished epochs
  int64_t batch = 0;  // finished batches of the next epoch
  RunningLoss sums;   // over these batches
  double best_loss = std::numeric_limits<double>::infinity();
  int64_t epochs_since_best = 0;
  bool is_stopped = false;
};

// Copies parameters, buffers and the learned state of fake-quants; and restores them.
std::vector<at::Tensor> capture(const QatModel& model);
void restore(QatModel& model, const std::vector<at::Tensor>& captured);

// Seeds dropout and similar ops.
void seed_random_numbers(int64_t seed);

// The part of a --checkpoint file that concerns the model.
struct SavedTraining {
  std::string run, flow;         // describes the run; TrainOptions::flow
  std::vector<at::Tensor> rest;  // capture() now, then at the best epoch
};
// Throws Error(stage, file, ...) for a file that is not a checkpoint or has another version.
SavedTraining read_checkpoint(const std::filesystem::path& file, const std::string& stage);
// Restores the best epoch if there is one, else the last state. Returns false if the file belongs
// to another model.
bool restore_saved(QatModel& model, const SavedTraining& saved);

// Writes options.checkpoint whole or not at all. best: capture() at the best epoch, or empty.
void save_checkpoint(const TrainOptions& options, size_t batch_count, const QatModel& model,
                     torch::optim::Optimizer& optimizer, const TrainingPosition& position,
                     const std::vector<at::Tensor>& best);
// Reads such a file. Throws Error("train", file, ...) if it is damaged, or from a run with another
// model, data or options. The number of epochs may differ.
void load_checkpoint(const TrainOptions& options, size_t batch_count, QatModel& model,
                     torch::optim::Optimizer& optimizer, TrainingPosition& position,
                     std::vector<at::Tensor>& best);

}  // namespace octet
