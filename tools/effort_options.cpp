#include "tools/effort_options.h"

#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "core/tensor_file.h"
#include "tools/command.h"

namespace octet {
namespace {

// One bar after the other.
class StageProgress {
 public:
  void advance(std::string_view stage, size_t done, size_t total) {
    if (total == 0) return;
    if (!bar_ || stage_ != stage) {
      bar_.reset();
      stage_ = stage;
      bar_.emplace(stage, total);
    }
    bar_->advance(done);
  }
  void end() { bar_.reset(); }

 private:
  std::string stage_;
  std::optional<Progress> bar_;
};

}  // namespace

void add_effort_options(CLI::App& command, EffortOptions& options) {
  CLI::Option* effort = command
                            .add_option("--effort", options.effort,
                                        fmt::format("high: more calibration time for accuracy; the same as --passes {}",
                                                    [] {
                                                      std::vector<std::string_view> names;
                                                      for (const AccuracyPass pass : high_effort_passes()) names.push_back(name_of(pass));
                                                      return fmt::format("{}", fmt::join(names, ","));
                                                    }()))
                            ->check(CLI::IsMember({"default", "high"}))
                            ->capture_default_str();
  command
      .add_option("--passes", options.passes,
                  fmt::format("Accuracy passes of your choice, in any order, with commas between: {}", fmt::join(accuracy_pass_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(accuracy_pass_names()))
      ->allow_extra_args(false)
      ->excludes(effort);
}

void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat) {
  if (!options.is_asked_for()) return;
  const std::string name = options.passes.empty() ? "--effort high" : "--passes";
  if (is_compat) throw CLI::ValidationError(name, "changes weights and ranges, which --compat torchao fixes; leave one of them out");
  if (!has_calibration) throw CLI::ValidationError(name, "reads the calibration data several times; give --calibration DATA.pt");
}

void calibrate_with_effort(ObservedGraph& observed, const std::string& data, size_t batches, const EffortOptions& options, Report& report) {
  const std::vector<AccuracyPass> passes = options.passes.empty() ? high_effort_passes() : parse_accuracy_passes(options.passes, "--passes");
  const DataOpener open = [&data, batches] {
    const auto reader = std::make_shared<BatchReader>(data);
    return [reader, batches, next = size_t{0}]() mutable { return next == batches ? std::nullopt : std::optional(reader->at(next++)); };
  };
  StageProgress progress;
  const std::vector<EffortStage> stages = calibrate_with_passes(
      observed, open, batches, passes, report, [&](std::string_view stage, size_t done, size_t total) { progress.advance(stage, done, total); });
  progress.end();
  double seconds = 0;
  std::vector<std::string> parts;
  for (const EffortStage& stage : stages) {
    parts.push_back(fmt::format("{} {:.1f} s", stage.name, stage.seconds));
    seconds += stage.seconds;
  }
  log_line(fmt::format("effort: {:.1f} s: {}", seconds, fmt::join(parts, ", ")));
}

}  // namespace octet
