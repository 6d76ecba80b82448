#include "annotate/compare/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

namespace octet {
namespace {

// The share of an error above which a part is its cause.
constexpr double kMostOfIt = 0.5;
// An op with a smaller share of the accumulated error adds little itself.
constexpr double kLittle = 0.1;
// Channels that span fewer steps are lost in rounding; and how many of them make a cause.
constexpr double kFewSteps = 4;
constexpr double kManyChannels = 0.1;
// Weights count when their worst channel is this much worse than all channels together.
constexpr double kMuchWorseDb = 6;

std::string percent(double share) {
  return fmt::format("{:.{}f} %", 100 * share, share < 0.001 ? 3 : share < 0.1 ? 2 : 0);
}

Diagnosis clipped(const OpComparison& op) {
  return {Cause::kClipped,
          fmt::format("{} of its output lies outside of [{:.4g}, {:.4g}], which is {} of its error",
                      percent(op.clipped_share), op.rounding->least(), op.rounding->greatest(),
                      percent(std::min(1.0, op.clipped_noise / op.isolated.noise)))};
}

Diagnosis of_weights(const OpComparison& op, const WeightComparison& weights) {
  const auto worst = std::min_element(weights.sqnr_db.begin(), weights.sqnr_db.end());
  std::string text = fmt::format("its weights have {:.1f} dB", weights.error.sqnr_db());
  if (worst != weights.sqnr_db.end() && *worst < weights.error.sqnr_db() - kMuchWorseDb)
    text += fmt::format(", channel {} of {} only {:.1f} dB", worst - weights.sqnr_db.begin(),
                        weights.sqnr_db.size(), *worst);
  if (op.rounding)
    text += fmt::format("; in front of the rounding of its output is {} of the error",
                        percent(std::min(1.0, op.before.noise / op.isolated.noise)));
  return {Cause::kWeights, text};
}

Diagnosis rounded(const OpComparison& op) {
  const double step = op.rounding->scale;
  const auto narrow = static_cast<size_t>(
      std::count_if(op.channel_peaks.begin(), op.channel_peaks.end(),
                    [&](float peak) { return peak > 0 && peak < kFewSteps * step; }));
  const double share = op.channel_peaks.empty() ? 0
                                                : static_cast<double>(narrow) /
                                                      static_cast<double>(op.channel_peaks.size());
  if (share >= kManyChannels)
    return {Cause::kNarrowChannels,
            fmt::format("{} of {} channels reach less than {:.0f} steps of {:.3g}, which all share",
                        narrow, op.channel_peaks.size(), kFewSteps, step)};
  return {Cause::kRounding, fmt::format("its output is rounded to steps of {:.3g}", step)};
}

}  // namespace

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return "none";
    case Cause::kAccumulated:
      return "accumulated";
    case Cause::kClipped:
      return "clipped";
    case Cause::kNarrowChannels:
      return "narrow channels";
    case Cause::kRounding:
      return "rounding";
    case Cause::kWeights:
      return "weights";
    case Cause::kOperation:
      return "operation";
  }
  return "none";
}

Diagnosis diagnose(const OpComparison& op, const WeightComparison* weights) {
  if (!op.accumulated.has_data() || (op.accumulated.relative() == 0 && op.isolated.relative() == 0))
    return {};
  if (!op.isolated.has_data() || op.isolated.relative() < kLittle * op.accumulated.relative())
    return {Cause::kAccumulated,
            !op.isolated.has_data() ? "what it does by itself was not measured"
            : op.isolated.relative() == 0
                ? "by itself it is exact; all of it comes in"
                : fmt::format("by itself {:.1f} dB; the rest comes in", op.isolated.sqnr_db())};
  if (op.isolated.strange > 0)
    return {Cause::kOperation, fmt::format("{} elements are NaN or infinite in one program alone",
                                           op.isolated.strange)};
  if (op.rounding && op.clipped_noise >= kMostOfIt * op.isolated.noise) return clipped(op);
  const bool is_before = !op.rounding || op.before.noise >= kMostOfIt * op.isolated.noise;
  if (!is_before) return rounded(op);
  if (weights != nullptr) return of_weights(op, *weights);
  return {Cause::kOperation, "what it computes differs, in front of any rounding of its output"};
}

std::vector<size_t> rank(const std::vector<OpComparison>& ops) {
  std::vector<size_t> order(ops.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(ops[a].isolated.relative(), ops[a].accumulated.relative()) >
           std::tuple(ops[b].isolated.relative(), ops[b].accumulated.relative());
  });
  return order;
}

}  // namespace octet
