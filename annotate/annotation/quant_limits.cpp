#include "annotate/annotation/quant_limits.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "annotate/annotation/qparams.h"

namespace octet {

namespace {

// The fields that all kinds of specs except shared ones have.
struct Target {
  DType dtype = DType::kInt8;
  std::optional<int64_t> quant_min;
  std::optional<int64_t> quant_max;
  bool reduce_range = false;
  bool is_dynamic = false;
};

Target target_of(const QuantizationSpec& spec) {
  return {spec.dtype, spec.quant_min, spec.quant_max, spec.observer_or_fake_quant_ctr.reduce_range,
          spec.is_dynamic};
}
template <typename Spec>
Target target_of(const Spec& spec) {
  return {spec.dtype, spec.quant_min, spec.quant_max, false, spec.is_dynamic};
}

std::string dtype_objection(const QuantLimits& limits, DType dtype) {
  const std::vector<DType>& wanted = limits.quantized_dtypes;
  if (wanted.empty() || std::ranges::find(wanted, dtype) != wanted.end()) return {};
  std::vector<std::string_view> names;
  for (DType one : wanted) names.push_back(name_of(one));
  return fmt::format("its spec has dtype {}, want {} (quantized_dtype)", name_of(dtype),
                     fmt::join(names, " or "));
}

std::string range_objection(const QuantLimits& limits, const Target& target) {
  if (!limits.quant_min_lower_bound && !limits.quant_max_upper_bound) return {};
  if (is_floating_point(target.dtype))
    return fmt::format("its spec has dtype {}, want an integer one within the quant range",
                       name_of(target.dtype));
  const IntegerRange range = resolve_quant_range(target.dtype, target.quant_min, target.quant_max,
                                                 target.reduce_range, "spec");
  if (limits.quant_min_lower_bound && range.min < *limits.quant_min_lower_bound)
    return fmt::format("quant_min is {}, want at least {} (quant_min_lower_bound)", range.min,
                       *limits.quant_min_lower_bound);
  if (limits.quant_max_upper_bound && range.max > *limits.quant_max_upper_bound)
    return fmt::format("quant_max is {}, want at most {} (quant_max_upper_bound)", range.max,
                       *limits.quant_max_upper_bound);
  return {};
}

std::string scale_objection(const QuantLimits& limits, double scale) {
  const auto as_float = [](double value) { return static_cast<float>(value); };
  if (limits.scale_exact_match && as_float(scale) != as_float(*limits.scale_exact_match))
    return fmt::format("scale is {:g}, want exactly {:g} (scale_exact_match)", scale,
                       *limits.scale_exact_match);
  if (limits.scale_min_lower_bound && as_float(scale) < as_float(*limits.scale_min_lower_bound))
    return fmt::format("scale is {:g}, want at least {:g} (scale_min_lower_bound)", scale,
                       *limits.scale_min_lower_bound);
  if (limits.scale_max_upper_bound && as_float(scale) > as_float(*limits.scale_max_upper_bound))
    return fmt::format("scale is {:g}, want at most {:g} (scale_max_upper_bound)", scale,
                       *limits.scale_max_upper_bound);
  return {};
}

std::string zero_point_objection(const QuantLimits& limits, double zero_point) {
  if (!limits.zero_point_exact_match ||
      zero_point == static_cast<double>(*limits.zero_point_exact_match))
    return {};
  return fmt::format("zero point is {:g}, want exactly {} (zero_point_exact_match)", zero_point,
                     *limits.zero_point_exact_match);
}

std::string observed_objection(const QuantLimits& limits, const QuantizationSpec& spec) {
  if (limits.scale_exact_match)
    return fmt::format(
        "its spec has the observer {}, want a fixed spec with scale {:g} (scale_exact_match)",
        spec.observer_or_fake_quant_ctr.name, *limits.scale_exact_match);
  if (!spec.is_dynamic) return {};
  const double least = spec.observer_or_fake_quant_ctr.eps.value_or(kFloatEps);
  if (limits.scale_min_lower_bound && least < *limits.scale_min_lower_bound)
    return fmt::format(
        "its scale is found at run time and at least the observer's eps, {:g}, want at least {:g} "
        "(scale_min_lower_bound)",
        least, *limits.scale_min_lower_bound);
  if (limits.scale_max_upper_bound || limits.zero_point_exact_match)
    return "its scale is found at run time, where no limit can be checked, want a spec that is not "
           "dynamic";
  return {};
}

struct SpecObjection {
  const QuantLimits& limits;

  std::string operator()(const QuantizationSpec& spec) const {
    const std::string common = common_objection(target_of(spec));
    return common.empty() ? observed_objection(limits, spec) : common;
  }
  std::string operator()(const FixedQParamsQuantizationSpec& spec) const {
    std::string reason = common_objection(target_of(spec));
    if (reason.empty()) reason = scale_objection(limits, spec.scale);
    return reason.empty() ? zero_point_objection(limits, static_cast<double>(spec.zero_point))
                          : reason;
  }
  std::string operator()(const DerivedQuantizationSpec& spec) const {
    return common_objection(target_of(spec));
  }
  std::string operator()(const SharedQuantizationSpec&) const { return {}; }

 private:
  std::string common_objection(const Target& target) const {
    const std::string reason = dtype_objection(limits, target.dtype);
    return reason.empty() ? range_objection(limits, target) : reason;
  }
};

}  // namespace

bool QuantLimits::empty() const {
  return quantized_dtypes.empty() && !quant_min_lower_bound && !quant_max_upper_bound &&
         !asks_scales();
}

std::string objection(const QuantLimits& limits, const SpecVariant& spec) {
  return std::visit(SpecObjection{limits}, spec);
}

std::string objection(const QuantLimits& limits, const QParams& qparams) {
  const auto at_channel = [&](size_t i) {
    return qparams.scale.size() > 1 ? fmt::format(" of channel {}", i) : std::string();
  };
  for (size_t i = 0; i < qparams.scale.size(); ++i) {
    std::string reason = scale_objection(limits, qparams.scale[i]);
    if (reason.empty() && i < qparams.zero_point.size())
      reason = zero_point_objection(limits, static_cast<double>(qparams.zero_point[i]));
    if (reason.empty() && i < qparams.float_zero_point.size())
      reason = zero_point_objection(limits, qparams.float_zero_point[i]);
    if (!reason.empty()) return reason.insert(reason.find(" is "), at_channel(i));
  }
  return {};
}

}  // namespace octet
