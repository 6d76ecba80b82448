// Names and approximate costs of the accuracy passes.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/accuracy/accuracy_passes.h"
#include "annotate/accuracy/tune_ranges.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr double kCalibrateCost = 4;

struct PassRow {
  AccuracyPass pass;
  std::string_view name;
  double cost;  // per batch, see PlannedStage
};
constexpr std::array<PassRow, 6> kPasses = {{{AccuracyPass::kEqualize, "equalize", 0.1},
                                             {AccuracyPass::kSmooth, "smooth", 4},
                                             {AccuracyPass::kRanges, "ranges", 600},
                                             {AccuracyPass::kCorrectBias, "correct-bias", 20},
                                             {AccuracyPass::kRound, "round", 110},
                                             {AccuracyPass::kAdaptive, "adaptive", 600}}};

const PassRow& row_of(AccuracyPass pass) {
  return *std::find_if(kPasses.begin(), kPasses.end(),
                       [&](const PassRow& row) { return row.pass == pass; });
}

}  // namespace

std::string_view name_of(AccuracyPass pass) { return row_of(pass).name; }

std::vector<std::string> accuracy_pass_names() {
  std::vector<std::string> names;
  for (const PassRow& row : kPasses) names.emplace_back(row.name);
  return names;
}

std::vector<AccuracyPass> parse_accuracy_passes(const std::vector<std::string>& names,
                                                const std::string& subject) {
  std::vector<AccuracyPass> passes;
  for (const std::string& name : names) {
    const auto row = std::find_if(kPasses.begin(), kPasses.end(),
                                  [&](const PassRow& known) { return known.name == name; });
    if (row == kPasses.end())
      throw Error("quantize", subject,
                  fmt::format("no such pass, got \"{}\", want some of {}", name,
                              fmt::join(accuracy_pass_names(), ", ")));
    if (std::find(passes.begin(), passes.end(), row->pass) != passes.end())
      throw Error("quantize", subject,
                  fmt::format("a pass runs once, got \"{}\" twice; leave one out", name));
    passes.push_back(row->pass);
  }
  return passes;
}

std::vector<AccuracyPass> high_effort_passes() {
  return {AccuracyPass::kSmooth, AccuracyPass::kRanges, AccuracyPass::kCorrectBias,
          AccuracyPass::kRound};
}

std::vector<PlannedStage> planned_stages(const std::vector<AccuracyPass>& passes, size_t batches) {
  std::vector<PlannedStage> stages;
  const auto add = [&](const std::vector<AccuracyPass>& chosen) {
    for (const AccuracyPass pass : chosen)
      stages.push_back(
          {name_of(pass),
           row_of(pass).cost * static_cast<double>(pass == AccuracyPass::kRanges
                                                       ? std::min(batches, RangeOptions().batches)
                                                       : batches)});
  };
  const PassOrder order(passes);
  add(order.equalize);
  stages.push_back({kCalibrateStage, kCalibrateCost * static_cast<double>(batches)});
  add(order.smooth);
  if (!order.ranges.empty()) add(order.after);
  add(order.ranges);
  add(order.after);
  return stages;
}

}  // namespace octet
