// Computes the distance between the input pixels that an upsample reads: an attribute, or the ratio
// of the sizes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// Input positions per output position when `in` positions become `out`, at least 1.
inline double resize_scale(bool align_corners, int64_t in, int64_t out) {
  if (!align_corners) return static_cast<double>(in) / static_cast<double>(out);
  return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
}

// That of an upsample along spatial dimension `d` of in and out [N,C,spatial].
// Open sizes decide it when a session knows them; the op holds no scales then.
inline double resize_scale(const ProgramOp& op, size_t d, std::span<const int64_t> in,
                           std::span<const int64_t> out) {
  const std::vector<double>& scales = op.get(attr::kScales);
  if (!scales.empty()) return scales[d];
  return resize_scale(op.get(attr::kAlignCorners), in[d + 2], out[d + 2]);
}

}  // namespace octet
