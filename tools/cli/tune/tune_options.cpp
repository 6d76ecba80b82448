// The options of `octet tune`, and which of them exclude each other.
#include "tools/cli/tune/tuner.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/registry.h"
#include "core/base/error.h"
#include "tools/cli/common/library.h"

namespace octet {

Options tune_options(TuneOptions& options) {
  Options evaluation = evaluation_options(options.data);
  evaluation.front().help =
      "Data like --calibration, on which each trial is evaluated; by default the last eighth of "
      "--calibration, at most 8 batches, which then do not calibrate, or all of fewer than 16, "
      "which then do both";
  return joined({
      calibration_options(options.data, /*is_required=*/true),
      std::move(evaluation),
      {
          Option{"min_sqnr", &options.least_sqnr_db,
                 "Goal: minimum SQNR of the outputs in dB, as the median over batches"}
              .without_key(),
          Option{"max_drop", &options.most_drop,
                 "Goal: maximum share of samples lost, 0.01 for 1 of 100; needs --labels"}
              .without_key(),
          metric_option(options.metric),
          Option{"min_metric", &options.least_metric,
                 "Goal: minimum --metric, as the mean over batches"}
              .without_key(),
          Option{"max_size", &options.most_size,
                 "Goal: the smallest error in an .octet file of at most this many MB (10^6 bytes); "
                 "chooses 8, 4 or 3 bits for the weights of each op (--mode dynamic, weight-only). "
                 "The file is one for --backend, by default reference; files for other backends "
                 "may be a few percent larger"}
              .positive(),
          Option{"max_latency", &options.most_latency,
                 "Second goal: maximum milliseconds of a run on --backend"}
              .positive()
              .without_key(),
          Option{"backend", &options.backend,
                 fmt::format("Time each trial on this backend (one of {}, or one from a --library, "
                             "or several with commas between them), and minimize time instead of "
                             "float ops, or with --max-size measure its file",
                             fmt::join(backend_names(), ", "))},
          Option{"threads", &options.threads, "Threads of these runs"}.between(1, 1024),
          Option{"trials", &options.most_trials,
                 "Maximum number of evaluations of the whole program; --max-size makes at most 5"}
              .between(1, 1000)
              .without_key(),
          Option{
              "effort", &options.effort,
              "high: also try accuracy passes for single ops, which do not slow the program down "
              "but take seconds to minutes per trial"}
              .one_of({"default", "high"}),
          Option{"checkpoint", &options.checkpoint,
                 "A file for the trials made: an interrupted run resumes"}
              .file()
              .without_key(),
          Option{"output", &options.output, "The quantized .pt2 to write"}.required().output(),
          Option{"save_config", &options.save_config,
                 "The .json to write the settings to, for --config of `octet quantize`"}
              .required()
              .output(),
          Option{"report", &options.report,
                 "Write all trials, the Pareto front and the errors of each op: F.html, F.json or "
                 "F.model-explorer.json"}
              .ends_in({".html", ".json"})
              .output(),
      },
  });
}

Options options_of(TuneOptions& options) {
  return joined({options_of(options.flow), tune_options(options)});
}

namespace {

void check_size_goal(const TuneOptions& options) {
  const QuantizeFlow& flow = options.flow;
  if (flow.mode == "static")
    throw Error("tune", "--max-size",
                "chooses the bits of weights, which are 8 with --mode static; give --mode "
                "weight-only or dynamic");
  if (flow.weight_bits)
    throw Error("tune", "--max-size", "chooses the bits of weights; leave --weight-bits out");
  if (options.has_effort() || options.most_latency || !options.metric.empty())
    throw Error("tune", "--max-size",
                "is a goal by itself; leave --effort, --max-latency and --metric out");
}

}  // namespace

void check_goals(const TuneOptions& options) {
  const int goals = (options.least_sqnr_db ? 1 : 0) + (options.most_drop ? 1 : 0) +
                    (options.least_metric ? 1 : 0) + (options.most_size ? 1 : 0);
  if (goals != 1)
    throw Error("tune", "the goal",
                "want one of --min-sqnr DB, --max-drop SHARE (with --labels), --min-metric X (with "
                "--metric) and --max-size MB");
  if (options.validate && (!options.metric.empty() || !options.least_metric))
    throw Error("tune", "validate",
                "is a metric, which --min-metric bounds; give that, and no other metric");
  if (options.least_metric && options.metric.empty() && !options.validate)
    throw Error("tune", "--min-metric", "needs a metric; give --metric LIB.so");
  if (options.most_drop && options.data.labels.empty())
    throw Error("tune", "--max-drop", "needs the class of each sample; give --labels L.pt");
  for (const auto& [name, value] : {std::pair("--min-sqnr", options.least_sqnr_db),
                                    std::pair("--min-metric", options.least_metric)})
    if (value && !std::isfinite(*value))
      throw Error("tune", name, fmt::format("is {}, want a finite number", *value));
  if (options.most_drop && !(*options.most_drop >= 0 && *options.most_drop < 1))
    throw Error(
        "tune", "--max-drop",
        fmt::format(
            "is {}, want a share of the samples, at least 0 and below 1; give 0.01 for 1 of 100",
            *options.most_drop));
  if (options.most_latency && !(*options.most_latency > 0))
    throw Error("tune", "--max-latency",
                fmt::format("is {}, want milliseconds above 0", *options.most_latency));
  if (options.most_size) check_size_goal(options);
  if (options.has_effort() && (options.flow.is_compat() || !options.flow.recorded.empty()))
    throw Error("tune", "--effort high",
                "changes weights and ranges, which --compat torchao and --recorded fix; leave one "
                "of them out");
  if (options.most_latency && options.backend.empty())
    throw Error("tune", "--max-latency", "needs the backend that is timed; give --backend B");
  if (!options.backend.empty()) make_supports(options.backend);  // throws for an unknown name
}

}  // namespace octet
