// Computes the scale and zero point of a block from its range, for fake_quantize_dynamic. It
// computes in float, as torch's choose_qparams ops do.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

#include "lowering/program/program.h"

namespace octet {

struct DynamicMapping {
  float quant_min;
  float quant_max;
  float eps;         // least scale
  float zero_point;  // for symmetric mappings
  // the attribute "mapping", which ops.def describes
  std::string_view name;
  // Whether the zero point is added before rounding, in double.
  bool rounds_last() const { return name == "least_error"; }
};

struct DynamicStep {
  double scale;
  double zero_point;  // an integer in [quant_min, quant_max]
};

// The attribute "mapping"; the default for an unknown value, which no backend accepts.
inline std::string_view mapping_name(const ProgramOp& op) {
  const auto found = op.attributes.find(attr::kMapping.name);
  const std::string* given =
      found == op.attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  for (const std::string_view name : {"symmetric", "symmetric_unclipped", "least_error"})
    if (given != nullptr && *given == name) return name;
  return "asymmetric";
}

inline DynamicMapping dynamic_mapping(const ProgramOp& op) {
  return {static_cast<float>(op.get(attr::kQuantMin)), static_cast<float>(op.get(attr::kQuantMax)),
          static_cast<float>(op.get(attr::kEps)), static_cast<float>(op.get(attr::kZeroPoint)),
          mapping_name(op)};
}

// The scale and zero point for the range [low, high], which contains 0.
inline DynamicStep choose_step(const DynamicMapping& mapping, float low, float high) {
  const float steps = mapping.quant_max - mapping.quant_min;
  if (mapping.name == "symmetric")
    return {std::max(std::max(-low, high) / (steps / 2), mapping.eps), mapping.zero_point};
  if (mapping.name == "symmetric_unclipped")
    return {std::max(std::max(low / mapping.quant_min, high / mapping.quant_max), mapping.eps),
            mapping.zero_point};
  const float scale = std::max((high - low) / steps, mapping.eps);
  float zero = mapping.quant_min - std::nearbyint(low / scale);
  if (mapping.name == "least_error") {
    const float below = low / scale, above = high / scale;
    zero = (below + mapping.quant_min) + (above + mapping.quant_max) > 0
               ? mapping.quant_min - below
               : mapping.quant_max - above;
    zero = std::nearbyint(std::min(std::max(zero, mapping.quant_min), mapping.quant_max));
  }
  return {scale, std::min(std::max(zero, mapping.quant_min), mapping.quant_max)};
}

}  // namespace octet
