#include "tools/quantize/refusals.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "quantizers/common/float_report.h"
#include "tools/common/messages.h"

namespace octet {
namespace {

// Ops that were to be quantized and are not: all but those that the mode leaves float.
std::vector<ReportEntry> find_refusals(const Report& report) {
  std::vector<ReportEntry> refusals;
  for (const ReportEntry& entry : report.entries())
    if (entry.stage != kModeStage) refusals.push_back(entry);
  return refusals;
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
