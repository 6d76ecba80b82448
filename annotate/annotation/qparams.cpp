#include "annotate/annotation/qparams.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

// float -> int32 like x86: values that do not fit give the least int32.
int32_t to_int32(float value) {
  if (!(value >= -2147483648.0f && value < 2147483648.0f))
    return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(value);
}

void check_min_max(std::span<const float> min, std::span<const float> max,
                   const std::string& subject) {
  OCTET_ASSERT(!min.empty() && min.size() == max.size(), "a range needs both ends");
  for (size_t i = 0; i < min.size(); ++i) {
    if (std::isfinite(min[i]) && std::isfinite(max[i]) && min[i] <= max[i]) continue;
    throw Error("convert", subject,
                fmt::format("no scale for the range [{}, {}] of channel {}; want finite numbers in "
                            "order; check the calibration data",
                            min[i], max[i], i));
  }
}

int64_t symmetric_zero_point(const QParamsTarget& target) {
  const int64_t sum = target.quant_min + target.quant_max;
  const int64_t middle = sum >= 0 ? sum / 2 : (sum - 1) / 2;
  if (target.dtype == DType::kUInt8 && target.has_custom_range) return middle;
  const int64_t wanted = target.dtype == DType::kUInt8    ? 128
                         : target.dtype == DType::kUInt16 ? int64_t{1} << 15
                                                          : 0;
  return wanted >= target.quant_min && wanted <= target.quant_max ? wanted : middle;
}

// scale: the scale for range `i`. An empty range keeps eps.
float least_scale(float scale, const QParamsTarget& target, size_t i) {
  const double steps = static_cast<double>(scale) / target.eps *
                       static_cast<double>(target.quant_max - target.quant_min);
  const bool is_below = steps > 0 && steps < fewest_steps(target.quant_min, target.quant_max);
  if (target.finest.empty() || !is_below) return target.eps;
  return std::min(target.eps, target.finest[target.finest.size() == 1 ? 0 : i]);
}

}  // namespace

QParams choose_qparams(std::span<const float> min, std::span<const float> max,
                       const QParamsTarget& target, const std::string& subject) {
  check_min_max(min, max, subject);
  QParams result;
  result.axis = is_per_channel(target.qscheme) ? target.axis : -1;
  const float range = static_cast<float>(static_cast<double>(target.quant_max - target.quant_min));
  const float half_range =
      static_cast<float>(static_cast<double>(target.quant_max - target.quant_min) / 2);
  result.zero_point_dtype = is_symmetric(target.qscheme) ? DType::kInt64
                            : target.qscheme == QScheme::kPerChannelAffineFloatQParams
                                ? DType::kFloat32
                                : DType::kInt32;
  for (size_t i = 0; i < min.size(); ++i) {
    const float low = std::min(min[i], 0.0f);
    const float high = std::max(max[i], 0.0f);
    if (is_symmetric(target.qscheme)) {
      const float scale = std::max(-low, high) / half_range;
      result.scale.push_back(std::max(scale, least_scale(scale, target, i)));
      result.zero_point.push_back(symmetric_zero_point(target));
    } else if (target.qscheme == QScheme::kPerChannelAffineFloatQParams) {
      const float scale = (max[i] - min[i]) / range;
      result.scale.push_back(scale > least_scale(scale, target, i) ? scale : 1.0f);
      result.float_zero_point.push_back(-1.0f * min[i] / result.scale.back());
    } else {
      const float wanted = (high - low) / range;
      const float scale = std::max(wanted, least_scale(wanted, target, i));
      const int64_t zero_point = target.quant_min - to_int32(std::nearbyint(low / scale));
      result.scale.push_back(scale);
      result.zero_point.push_back(std::clamp(zero_point, target.quant_min, target.quant_max));
    }
  }
  return result;
}

IntegerRange resolve_quant_range(DType dtype, std::optional<int64_t> quant_min,
                                 std::optional<int64_t> quant_max, bool reduce_range,
                                 const std::string& subject) {
  const auto refuse = [&](const std::string& message) { throw Error("prepare", subject, message); };
  if (quant_min.has_value() != quant_max.has_value())
    refuse("a spec gives one end of its quant range; give both or neither");
  const bool is_int = is_integer(dtype) && size_of(dtype) <= 4;
  if (!quant_min) {
    if (!is_int)
      refuse(fmt::format("{} has no default quant range; give quant_min and quant_max",
                         name_of(dtype)));
    if (reduce_range && dtype == DType::kInt8) return {-64, 63};
    if (reduce_range && dtype == DType::kUInt8) return {0, 127};
    return integer_range(dtype);
  }
  if (*quant_min > 0 || *quant_max < 0)
    refuse(fmt::format("the quant range must hold 0, got [{}, {}]", *quant_min, *quant_max));
  if (*quant_min >= *quant_max)
    refuse(fmt::format("the quant range is empty, got [{}, {}]", *quant_min, *quant_max));
  if (is_int && (*quant_min < integer_range(dtype).min || *quant_max > integer_range(dtype).max))
    refuse(fmt::format("the quant range leaves {}, got [{}, {}]", name_of(dtype), *quant_min,
                       *quant_max));
  if (!reduce_range) return {*quant_min, *quant_max};
  const auto floor_half = [](int64_t x) { return x >= 0 ? x / 2 : -((-x + 1) / 2); };
  return {floor_half(*quant_min), floor_half(*quant_max)};
}

void check_qparams(const QParams& qparams, IntegerRange range, const std::string& source,
                   const std::string& subject) {
  const size_t count = qparams.scale.size();
  const bool is_integral = qparams.float_zero_point.empty();
  const size_t points = is_integral ? qparams.zero_point.size() : qparams.float_zero_point.size();
  if (count == 0 || points != count)
    throw Error(
        "convert", subject,
        fmt::format("{} returned {} scales and {} zero points, want one of each per tensor or "
                    "channel; correct it",
                    source, count, points));
  const auto refuse = [&](const std::string& message) { throw Error("convert", subject, message); };
  for (size_t i = 0; i < count; ++i) {
    const float scale = qparams.scale[i];
    if (!std::isfinite(scale) || scale <= 0)
      refuse(
          fmt::format("{} returned the scale {} at index {}, want a finite number above 0; correct "
                      "it",
                      source, scale, i));
    if (!is_integral && !std::isfinite(qparams.float_zero_point[i]))
      refuse(
          fmt::format("{} returned the zero point {} at index {}, want a finite number; correct it",
                      source, qparams.float_zero_point[i], i));
    if (is_integral && (qparams.zero_point[i] < range.min || qparams.zero_point[i] > range.max))
      refuse(fmt::format(
          "{} returned the zero point {} at index {}, want one within {} to {}; correct "
          "it",
          source, qparams.zero_point[i], i, range.min, range.max));
  }
}

}  // namespace octet
