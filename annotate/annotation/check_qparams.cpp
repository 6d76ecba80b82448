#include "annotate/annotation/check_qparams.h"

#include <cmath>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {

void check_qparams(const QParams& qparams, IntegerRange range, const std::string& source,
                   const std::string& subject) {
  const size_t count = qparams.scale.size();
  const bool is_integral = qparams.float_zero_point.empty();
  const size_t points = is_integral ? qparams.zero_point.size() : qparams.float_zero_point.size();
  if (count == 0 || points != count)
    throw Error("convert", subject,
                fmt::format("{} gave {} scales and {} zero points, want one of each per tensor or "
                            "channel; correct it",
                            source, count, points));
  const auto refuse = [&](const std::string& message) { throw Error("convert", subject, message); };
  for (size_t i = 0; i < count; ++i) {
    const float scale = qparams.scale[i];
    if (!std::isfinite(scale) || scale <= 0)
      refuse(
          fmt::format("{} gave the scale {} at index {}, want a finite number above 0; correct "
                      "it",
                      source, scale, i));
    if (!is_integral && !std::isfinite(qparams.float_zero_point[i]))
      refuse(fmt::format("{} gave the zero point {} at index {}, want a finite number; correct it",
                         source, qparams.float_zero_point[i], i));
    if (is_integral && (qparams.zero_point[i] < range.min || qparams.zero_point[i] > range.max))
      refuse(
          fmt::format("{} gave the zero point {} at index {}, want one within {} to {}; correct "
                      "it",
                      source, qparams.zero_point[i], i, range.min, range.max));
  }
}

}  // namespace octet
