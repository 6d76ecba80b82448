#include "tools/cli/quantize/effort_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

namespace octet {
void add_effort_options(CLI::App& command, EffortOptions& options) {
  CLI::Option* effort =
      command
          .add_option(
              "--effort", options.effort,
              fmt::format("none: calibration alone; default: smoothing too, where linears read "
                          "layer norms; high: more calibration time for accuracy, the same as "
                          "--passes {}",
                          [] {
                            std::vector<std::string_view> names;
                            for (const AccuracyPass pass : high_effort_passes())
                              names.push_back(name_of(pass));
                            return fmt::format("{}", fmt::join(names, ","));
                          }()))
          ->check(CLI::IsMember({"none", "default", "high"}))
          ->capture_default_str();
  command
      .add_option(
          "--passes", options.passes,
          fmt::format("Accuracy passes of your choice, in any order, with commas between: {}",
                      fmt::join(accuracy_pass_names(), ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(accuracy_pass_names()))
      ->allow_extra_args(false)
      ->excludes(effort);
  command.add_option("--checkpoint", options.checkpoint,
                     "A file that --effort high or --passes keep their work in, pass by pass; the "
                     "same command goes on from it and gives the same bits");
}

std::vector<AccuracyPass> passes_of(const EffortOptions& options) {
  if (!options.is_asked_for()) return {};
  return options.passes.empty() ? high_effort_passes()
                                : parse_accuracy_passes(options.passes, "--passes");
}

void check_effort_options(const EffortOptions& options, bool has_calibration, bool is_compat) {
  if (!options.is_asked_for() && !options.checkpoint.empty())
    throw CLI::ValidationError(
        "--checkpoint",
        "keeps what accuracy passes did; give --effort high or --passes too, or leave it out");
  if (!options.is_asked_for()) return;
  const std::string name = options.passes.empty() ? "--effort high" : "--passes";
  if (is_compat)
    throw CLI::ValidationError(
        name, "changes weights and ranges, which --compat torchao fixes; leave one of them out");
  if (!has_calibration)
    throw CLI::ValidationError(
        name, "reads the calibration data several times; give --calibration DATA.pt");
}

}  // namespace octet
