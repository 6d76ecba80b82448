#include "tools/cli/qat/train.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "annotate/observers/learnable_fake_quantize.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/set_training.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/sample_data.h"
#include "tools/cli/common/signals.h"
#include "tools/cli/qat/checkpoint.h"

namespace octet {
namespace {

using Values = std::vector<c10::IValue>;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const QatModel& model,
                                                        const TrainOptions& options) {
  const std::vector<at::Tensor> ranges = model.range_parameters();
  std::vector<at::Tensor> parameters = model.parameters();
  parameters.resize(parameters.size() - ranges.size());
  if (parameters.empty())
    throw Error("train", "model",
                "no parameter requires gradients; export the model with parameters that do");
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  if (options.optimizer == OptimizerKind::kAdamW)
    optimizer = std::make_unique<torch::optim::AdamW>(
        parameters, torch::optim::AdamWOptions(options.rate).weight_decay(options.weight_decay));
  else
    optimizer =
        std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(options.rate)
                                                            .momentum(options.momentum)
                                                            .weight_decay(options.weight_decay));
  if (ranges.empty()) return optimizer;
  optimizer->add_param_group(torch::optim::OptimizerParamGroup(ranges));
  // No weight decay for scales. Set afterwards, because LibTorch replaces options of a group that
  // equal its own defaults by those of the optimizer.
  torch::optim::OptimizerOptions& of_ranges = optimizer->param_groups().back().options();
  if (options.optimizer == OptimizerKind::kAdamW)
    static_cast<torch::optim::AdamWOptions&>(of_ranges).weight_decay(0);
  else
    static_cast<torch::optim::SGDOptions&>(of_ranges).weight_decay(0);
  return optimizer;
}

// Throws if a fake-quant that never observes has no range.
void check_frozen_ranges(const QatModel& model) {
  const ObservedGraph& prepared = model.prepared();
  for (const Node* point : observer_nodes(prepared.graph)) {
    const Observer& observer = *prepared.observers.at(static_cast<size_t>(group_of(*point)));
    const bool finds_own =
        dynamic_cast<const LearnableFakeQuantize*>(&observer) != nullptr || !observer.keeps_state();
    if (!observer.has_data() && !finds_own &&
        dynamic_cast<const FakeQuantize*>(&observer) != nullptr)
      throw Error(
          "train", "--freeze-after",
          fmt::format(
              "got 0, but %{} has no range yet; freeze later, or give --state of a calibration",
              observed_value(*point)->name()));
  }
}

size_t input_count(const Graph& graph) {
  return static_cast<size_t>(std::ranges::count_if(graph.inputs(), [](const GraphInput& input) {
    return input.kind == InputKind::kUserInput || input.kind == InputKind::kConstant;
  }));
}

// The number of labels that are not ignored.
int64_t labels_of(const at::Tensor& classes) {
  constexpr int64_t kIgnored = -100;  // cross_entropy_loss ignores this label
  return classes.ne(kIgnored).sum().item<int64_t>();
}

std::string text_of(const RunningLoss& sums) {
  std::string text = fmt::format("loss {:.6g}", sums.loss());
  if (sums.is_classified()) text += fmt::format(", accuracy {:.2f} %", 100 * sums.accuracy());
  return text;
}

}  // namespace

std::vector<size_t> order_of_batches(size_t count, int64_t seed, int64_t epoch) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 generator(static_cast<uint64_t>(seed) * 1000003u + static_cast<uint64_t>(epoch));
  for (size_t i = count; i > 1; --i) std::swap(order[i - 1], order[generator() % i]);
  return order;
}

std::string name_of_epoch(int64_t epoch) { return fmt::format("epoch {}", epoch + 1); }

struct QatTrainer::State {
  State(QatModel& trained, const Graph& float_model, TrainOptions given, SharedStep& shared)
      : model(trained),
        step(shared),
        options(std::move(given)),
        batches(sample_data(options.train, &float_model, options.max_batches)),
        optimizer(make_optimizer(trained, options)),
        inputs(input_count(trained.prepared().graph)) {
    if (!options.validation.empty())
      validation.emplace(sample_data(options.validation, &float_model));
    if (options.loss != Loss::kDistill) return;
    teacher_graph = clone(float_model);
    set_training(*teacher_graph, Mode::kEvaluation);
    teacher.emplace(*teacher_graph);
  }

  void run();
  void run_epoch(Progress& progress);
  bool end_epoch();
  void set_up_epoch();
  void set_rate();
  RunningLoss validate();
  at::Tensor loss_of(const Values& batch, const std::string& subject, RunningLoss& sums,
                     const Values* whole = nullptr);
  at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& target, RunningLoss& sums,
                           const Values* whole);
  void run_step(size_t index, const std::string& subject);
  at::Tensor distance(const Values& inputs, const Values& outputs);
  void save();

  QatModel& model;
  SharedStep& step;
  TrainOptions options;
  SampleReader batches;
  std::optional<SampleReader> validation;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  size_t inputs;
  std::unique_ptr<Graph> teacher_graph;
  std::optional<Interpreter> teacher;
  TrainingPosition position;
  std::vector<at::Tensor> best;  // see capture()
};

at::Tensor QatTrainer::State::distance(const Values& batch, const Values& outputs) {
  const Values wanted = teacher->run(batch);
  at::Tensor sum;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor() || !outputs[i].toTensor().is_floating_point()) continue;
    const at::Tensor part = at::mse_loss(outputs[i].toTensor(), wanted.at(i).toTensor());
    sum = sum.defined() ? sum + part : part;
  }
  if (!sum.defined())
    throw Error("train", "--loss distill", "the model has no floating-point output");
  return sum;
}

at::Tensor QatTrainer::State::cross_entropy(const at::Tensor& output, const at::Tensor& target,
                                            RunningLoss& sums, const Values* whole) {
  const at::Tensor classes = target.to(at::kLong);
  const int64_t right =
      output.dim() > 1 ? at::argmax(output.detach(), 1).eq(classes).sum().item<int64_t>() : 0;
  if (whole == nullptr) {
    const at::Tensor loss = at::cross_entropy_loss(output, classes);
    sums.add(loss.item<double>(), classes.numel());
    sums.add_right(right);
    return loss;
  }
  const at::Tensor& all = whole->back().toTensor();
  const bool counts = step.part().counts;
  const at::Tensor loss = at::cross_entropy_loss(output, classes, {}, at::Reduction::Sum) *
                          ((counts ? 1.0 : 0.0) / static_cast<double>(labels_of(all)));
  sums.add_sum(loss.item<double>() * static_cast<double>(all.numel()),
               counts ? classes.numel() : 0);
  sums.add_right(counts ? right : 0);
  return loss;
}

// whole: the batch, if `batch` is only this process's part; the loss is then weighted by the part's
// share of the batch.
at::Tensor QatTrainer::State::loss_of(const Values& batch, const std::string& subject,
                                      RunningLoss& sums, const Values* whole) {
  const auto part_of = [&](const at::Tensor& mean) {
    const at::Tensor loss = whole == nullptr ? mean : mean * step.weight();
    sums.add_sum(loss.item<double>(), whole == nullptr || step.is_first() ? 1 : 0);
    return loss;
  };
  const bool has_target = batch.size() == inputs + 1;
  if (!has_target && !(options.loss == Loss::kDistill && batch.size() == inputs))
    throw Error("train", subject,
                fmt::format("got {} values, want {}: the model's inputs and then the target",
                            batch.size(), inputs + 1));
  const Values given(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(inputs));
  const Values outputs = model.forward(given);
  if (options.loss == Loss::kDistill) return part_of(distance(given, outputs));
  if (!batch.back().isTensor() || outputs.empty() || !outputs[0].isTensor())
    throw Error("train", subject, "the target and the model's first output must be tensors");
  const at::Tensor& output = outputs[0].toTensor();
  const at::Tensor target = batch.back().toTensor();
  if (options.loss == Loss::kMse) {
    if (target.sizes() != output.sizes())
      throw Error("train", subject,
                  fmt::format("the target is [{}], want the shape of the output, [{}]",
                              fmt::join(target.sizes(), ", "), fmt::join(output.sizes(), ", ")));
    return part_of(at::mse_loss(output, target.to(output.scalar_type())));
  }
  if (target.is_floating_point())
    throw Error("train", subject,
                "the target is floating point, want class numbers; or use --loss mse");
  return cross_entropy(output, target, sums, whole);
}

void QatTrainer::State::set_up_epoch() {
  const bool is_frozen = options.freeze_after && position.epoch >= *options.freeze_after;
  model.train();
  model.enable_observers(!is_frozen);
  model.enable_range_learning(options.learn_ranges && position.epoch >= *options.learn_ranges &&
                              !is_frozen);
  model.freeze_batch_norm(is_frozen);
}

void QatTrainer::State::set_rate() {
  if (options.schedule == Schedule::kConstant) return;
  const double count = static_cast<double>(batches.size());
  const double done =
      (static_cast<double>(position.epoch) * count + static_cast<double>(position.batch)) /
      (static_cast<double>(options.epochs) * count);
  for (torch::optim::OptimizerParamGroup& group : optimizer->param_groups())
    group.options().set_lr(options.rate * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

void QatTrainer::State::run_step(size_t index, const std::string& subject) {
  const Values whole = batches.at(index);
  const Values part = step.rows_of(whole, subject);
  if (!step.is_alone()) step.seed(options.seed, position.epoch, position.batch);
  const at::Tensor loss = loss_of(part, subject, position.sums, step.is_alone() ? nullptr : &whole);
  if (!std::isfinite(loss.item<double>()))
    throw Error("train", subject,
                fmt::format("the loss is {}, want a finite number; lower --lr, got {}",
                            loss.item<double>(), options.rate));
  set_rate();
  optimizer->zero_grad();
  loss.backward();
  step.sum_gradients(*optimizer);
  optimizer->step();
}

void QatTrainer::State::run_epoch(Progress& progress) {
  const std::vector<size_t> order = order_of_batches(batches.size(), options.seed, position.epoch);
  progress.begin(name_of_epoch(position.epoch));
  while (static_cast<size_t>(position.batch) < order.size()) {
    const size_t index = order[static_cast<size_t>(position.batch)];
    const std::string subject = fmt::format("epoch {} batch {}", position.epoch + 1, index);
    try {
      run_step(index, subject);
    } catch (const c10::Error& error) {
      throw Error("train", subject, first_line(error.what_without_backtrace()));
    }
    ++position.batch;
    progress.advance(static_cast<size_t>(position.batch), order.size());
    const bool is_last = static_cast<size_t>(position.batch) == order.size();
    if (options.checkpoint_every && !is_last && position.batch % *options.checkpoint_every == 0)
      save();
  }
}

RunningLoss QatTrainer::State::validate() {
  const at::NoGradGuard no_grad;
  model.eval();
  model.enable_observers(false);
  RunningLoss sums;
  for (size_t i = step.rank(); i < validation->size(); i += step.count())
    loss_of(validation->at(i), fmt::format("validation batch {}", i), sums);
  return step.sum(sums);
}

// Returns whether to continue.
bool QatTrainer::State::end_epoch() {
  position.sums = step.sum(position.sums);
  step.check_equal(model.parameters());
  std::string line =
      fmt::format("epoch {}/{}: {}", position.epoch + 1, options.epochs, text_of(position.sums));
  double loss = position.sums.loss();
  if (validation) {
    const RunningLoss sums = validate();
    line += fmt::format("; validation {}", text_of(sums));
    loss = sums.loss();
  }
  const bool is_better = loss < position.best_loss;
  if (is_better) {
    position.best_loss = loss;
    position.epochs_since_best = 0;
    if (options.patience) best = capture(model);
  } else {
    ++position.epochs_since_best;
  }
  log_line(line);
  ++position.epoch;
  position.batch = 0;
  position.sums = {};
  position.is_stopped = options.patience && position.epochs_since_best >= *options.patience;
  if (position.is_stopped)
    log_line(fmt::format("stopped: no lower loss than {:.6g} for {} epochs", position.best_loss,
                         position.epochs_since_best));
  save();
  return !position.is_stopped;
}

void QatTrainer::State::save() {
  if (options.checkpoint.empty()) return;
  position.sums = step.sum(position.sums);
  if (!step.is_first()) {
    position.sums = {};
    return;
  }
  save_checkpoint(options, batches.size(), model, *optimizer, position, best);
  say_when_interrupted(fmt::format(
      "{} holds the state of training; the same command resumes from it", options.checkpoint));
}

void QatTrainer::State::run() {
  seed_random_numbers(options.seed);
  step.check_rows(batches.at(0), options.train);
  if (!options.checkpoint.empty() && std::filesystem::exists(options.checkpoint)) {
    load_checkpoint(options, batches.size(), model, *optimizer, position, best);
    if (!step.is_first()) position.sums = {};
    log_line(fmt::format("resumed from {} at epoch {}, batch {}", options.checkpoint,
                         position.epoch + 1, position.batch));
  }
  if (options.freeze_after && *options.freeze_after <= position.epoch) check_frozen_ranges(model);
  std::vector<Progress::Stage> epochs;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) epochs.push_back({name_of_epoch(epoch)});
  Progress progress(std::move(epochs));
  while (position.epoch < options.epochs && !position.is_stopped) {
    set_up_epoch();
    run_epoch(progress);
    if (!end_epoch()) break;
  }
  if (!best.empty()) restore(model, best);
}

QatTrainer::QatTrainer(QatModel& model, const Graph& float_model, TrainOptions options,
                       SharedStep& step)
    : state_(std::make_unique<State>(model, float_model, std::move(options), step)) {}

QatTrainer::~QatTrainer() = default;

void QatTrainer::run() { state_->run(); }

}  // namespace octet
