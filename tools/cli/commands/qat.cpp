// octet qat: a float .pt2 is trained with fake quantization and becomes a q/dq .pt2.
#include <chrono>
#include <map>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "annotate/convert/convert.h"
#include "annotate/observed/annotation_json.h"
#include "annotate/observed/observer_state.h"
#include "annotate/training/initial_ranges.h"
#include "annotate/training/qat_model.h"
#include "core/base/error.h"
#include "core/pt2/reader.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/processes/processes.h"
#include "tools/cli/qat/train.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/flow_text.h"
#include "tools/cli/quantize/pass_rows.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/quantize/report_file.h"

namespace octet {
namespace {

const std::map<std::string, Loss> kLosses = {
    {"cross_entropy", Loss::kCrossEntropy}, {"mse", Loss::kMse}, {"distill", Loss::kDistill}};
const std::map<std::string, OptimizerKind> kOptimizers = {{"sgd", OptimizerKind::kSgd},
                                                          {"adamw", OptimizerKind::kAdamW}};

const std::map<std::string, Schedule> kSchedules = {{"constant", Schedule::kConstant},
                                                    {"cosine", Schedule::kCosine}};

struct QatOptions {
  QuantizeFlow flow;
  TrainOptions train;
  std::string loss = "cross_entropy", optimizer = "sgd", schedule = "constant", state, output,
              report;
};

template <typename Value>
std::vector<std::string> keys_of(const std::map<std::string, Value>& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

void add_train_options(CLI::App& command, QatOptions& options) {
  TrainOptions& train = options.train;
  command
      .add_option("--train", train.train,
                  "torch.save of a list of tuples: the model's inputs, then the target")
      ->required();
  command.add_option("--validation", train.validation, "Likewise; run after each epoch");
  command
      .add_option("--loss", options.loss,
                  "cross_entropy (class numbers), mse, or distill: the squared difference from the "
                  "float model's outputs")
      ->check(CLI::IsMember(keys_of(kLosses)))
      ->capture_default_str();
  command.add_option("--optimizer", options.optimizer, "sgd or adamw")
      ->check(CLI::IsMember(keys_of(kOptimizers)))
      ->capture_default_str();
  command.add_option("--epochs", train.epochs, "How many times it sees all of the training data")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--lr", train.rate, "Learning rate")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--schedule", options.schedule,
                  "Of the learning rate; cosine: falls to 0 over all epochs")
      ->check(CLI::IsMember(keys_of(kSchedules)))
      ->capture_default_str();
  command.add_option("--momentum", train.momentum, "Of sgd")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option(
          "--weight-decay", train.weight_decay,
          "How strongly parameters are pulled towards 0; sgd adds it, times the parameter, to the "
          "gradient, adamw to the step")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--freeze-after", train.freeze_after,
                  "Epochs after which ranges and batch norm statistics stay as they are")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--state", options.state,
                     "What octet calibrate wrote for the same model: the ranges to begin with");
  command
      .add_option("--learn-ranges", train.learn_ranges,
                  "Epochs after which scales of static activations and of weights are trained too "
                  "(LSQ); 0: from the first batch on")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--patience", train.patience,
                  "Stop after so many epochs without a lower loss, and take the best epoch")
      ->check(CLI::PositiveNumber);
  command.add_option("--seed", train.seed, "Of the order of the batches, and of dropout")
      ->capture_default_str();
  command.add_option(
      "--checkpoint", train.checkpoint,
      "A file to keep the state of training in; when it is there, training continues from it");
  command
      .add_option("--checkpoint-every", train.checkpoint_every,
                  "Batches between checkpoints; default: an epoch")
      ->check(CLI::PositiveNumber);
}

void check_options(const QatOptions& options) {
  if (!options.flow.recorded.empty())
    throw Error("qat", "--recorded",
                "recorded parts do not run, so nothing is trained through them; leave it out");
  if (options.train.checkpoint_every && options.train.checkpoint.empty())
    throw Error("qat", "--checkpoint-every", "goes with --checkpoint; give it a file");
  if (options.train.learn_ranges && options.flow.is_compat())
    throw Error("qat", "--learn-ranges",
                "torchao's quantizers have no learned ranges; leave out --compat torchao");
  check_writable(options.output);
  if (!options.report.empty()) check_writable(options.report);
  if (!options.train.checkpoint.empty()) check_writable(options.train.checkpoint.string());
}

void load_ranges(ObservedGraph& prepared, const std::string& file) {
  const InitialRanges ranges = set_initial_ranges(prepared, read_state(file), file);
  log_line(fmt::format("{} ranges from {}{}", ranges.taken, file,
                       ranges.others.empty() ? ""
                                             : fmt::format("; %{} follow the data",
                                                           fmt::join(ranges.others, ", %"))));
}

// Each step frees its activations and asks for them again. glibc would give memory of that size
// back to the system and get it page by page.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void train_and_write(const QatOptions& options, Processes& processes) {
  if (processes.rank() == 0) check_options(options);
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  keep_freed_memory();
  Report report;
  const Graph float_model = read_pt2(options.flow.model);
  refuse_pass_rows(options.flow.config);
  SharedStep step(processes, float_model);
  QatModel model(prepare_model(read_model(options.flow), options.flow, report), {},
                 step.is_alone() ? nullptr : &step);
  if (!options.state.empty()) load_ranges(model.prepared(), options.state);
  QatTrainer(model, float_model, options.train, step).run();
  if (!step.is_first()) return;
  if (!step.is_alone()) log_line(step.traffic());
  ObservedGraph trained = std::move(model).finish();
  const bool has_report = !options.report.empty();
  ReportFile report_file("qat", options.flow);
  if (has_report) report_file.before_convert(trained, annotations_to_json(trained));
  const Graph graph = convert_pt2e(std::move(trained), {.compat = options.flow.compat}, report);
  if (has_report) report_file.after_convert(graph, report);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (has_report)
    report_file.write(options.report, report,
                      quality_json({}, weigh(float_model, graph, report), seconds));
  write_pt2(graph, options.output);
  if (!report.entries().empty())
    log_line(fmt::format("float: {} ops; --report says why of each", report.entries().size()));
  for (const std::string& note : report.notes()) log_line("note: " + note);
}

}  // namespace

void add_qat_command(CLI::App& app) {
  auto options = std::make_shared<QatOptions>();
  CLI::App* command =
      app.add_subcommand("qat",
                         "Train with fake quantization, then quantize; mpirun shares "
                         "each batch among processes");
  add_flow_options(*command, options->flow);
  add_train_options(*command, *options);
  command->add_option("--output", options->output, "The quantized .pt2")->required();
  add_report_option(*command, options->report);
  command->callback([options] {
    options->flow.is_training = true;
    options->flow.learns_ranges = options->train.learn_ranges.has_value();
    options->train.schedule = kSchedules.at(options->schedule);
    options->train.loss = kLosses.at(options->loss);
    options->train.optimizer = kOptimizers.at(options->optimizer);
    options->train.flow = text_of_flow(options->flow);
    Processes processes;
    if (processes.rank() != 0) set_silent();
    processes.gather([&] {
      train_and_write(*options, processes);
      return std::string();
    });
  });
}

}  // namespace octet
