// The step with which an upsample walks over its input: an attribute, or that of the sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// Input positions per output position along spatial dimension `d` of in and out [N,C,spatial].
// Open sizes decide it when a session knows them; the op holds no scales then.
inline double resize_scale(const ProgramOp& op, size_t d, std::span<const int64_t> in,
                           std::span<const int64_t> out) {
  const std::vector<double>& scales = op.get(attr::kScales);
  if (!scales.empty()) return scales[d];
  const int64_t corner = op.get(attr::kAlignCorners) ? 1 : 0;
  if (out[d + 2] <= corner) return 0;
  return static_cast<double>(in[d + 2] - corner) / static_cast<double>(out[d + 2] - corner);
}

}  // namespace octet
