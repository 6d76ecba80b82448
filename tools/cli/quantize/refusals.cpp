#include "tools/cli/quantize/refusals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "quantizers/common/float_report.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

// Ops that stayed float, except those that the mode leaves float.
std::vector<ReportEntry> find_refusals(const Report& report) {
  std::vector<ReportEntry> refusals;
  for (const ReportEntry& entry : report.entries())
    if (entry.stage != kModeStage) refusals.push_back(entry);
  return refusals;
}

// Empty if enough is quantized.
std::string low_share(const Weight& weight) {
  constexpr size_t kReasons = 3;
  if (!weight.quantized_share || *weight.quantized_share >= kLeastShare) return {};
  std::vector<std::string> reasons;
  for (const Weight::Reason& reason : weight.reasons)
    if (!reason.is_of_mode && reason.share > 0 && reasons.size() < kReasons)
      reasons.push_back(fmt::format("{} op{}, %{} the largest ({:.1f} %): {}", reason.ops,
                                    reason.ops == 1 ? "" : "s", reason.node, 100 * reason.share,
                                    reason.text));
  return fmt::format(
      "{:.1f} % of the multiply-accumulates that can be quantized are, want {:.0f} %{}{}",
      100 * *weight.quantized_share, 100 * kLeastShare, reasons.empty() ? "" : "; ",
      fmt::join(reasons, "; "));
}

// Empty if the outputs are close enough.
std::string low_ratio(const nlohmann::ordered_json& quality) {
  const nlohmann::ordered_json& median = quality.at("median_sqnr_db");
  if (median.is_null() || median.get<double>() >= kLeastDecibels) return {};
  return fmt::format(
      "the outputs have {:.1f} dB to float, under {:.0f}; `octet compare` names the ops that hurt, "
      "`octet tune --min-sqnr` keeps such ops in float, --mode dynamic finds ranges at run time",
      median.get<double>(), kLeastDecibels);
}

}  // namespace

void log_refusals(const Report& report) {
  constexpr size_t kShown = 5;
  const std::vector<ReportEntry> refusals = find_refusals(report);
  for (size_t i = 0; i < refusals.size() && i < kShown; ++i)
    log_line(fmt::format("float: {} ({}): {}", refusals[i].node, refusals[i].target,
                         refusals[i].reason));
  if (refusals.size() > kShown)
    log_line(fmt::format("float: and {} more; --report FILE.json has them all",
                         refusals.size() - kShown));
  const size_t by_mode = report.entries().size() - refusals.size();
  if (by_mode > 0)
    log_line(fmt::format("float: {} ops without weights, which the mode leaves float", by_mode));
  for (const std::string& note : report.notes()) log_line("note: " + note);
}

std::vector<std::string> find_shortcomings(const Weight& weight,
                                           const nlohmann::ordered_json& quality) {
  std::vector<std::string> found = {low_share(weight), low_ratio(quality)};
  std::erase(found, "");
  return found;
}

void check_strict(const Report& report, const Weight& weight, const std::string& model) {
  if (const std::string low = low_share(weight); !low.empty())
    throw Error("quantize", model, low + " (--strict)");
  const std::vector<ReportEntry> refusals = find_refusals(report);
  if (refusals.empty()) return;
  const ReportEntry& first = refusals.front();
  const std::string more =
      refusals.size() == 1 ? "" : fmt::format("; and {} more", refusals.size() - 1);
  throw Error("quantize", first.node,
              fmt::format("({}) stayed float: {}{}, want every compute op quantized (--strict)",
                          first.target, first.reason, more));
}

}  // namespace octet
