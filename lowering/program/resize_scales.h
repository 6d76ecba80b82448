// The steps with which an upsample walks over its input: its attribute, or those of the sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "lowering/program/program.h"

namespace octet {

// Input positions per output position, for each spatial dimension of in and out [N,C,spatial].
// Open sizes decide the steps when a session knows them, so their op holds none.
inline std::vector<double> resize_scales(const ProgramOp& op, std::span<const int64_t> in,
                                         std::span<const int64_t> out) {
  std::vector<double> scales = op.get(attr::kScales);
  if (!scales.empty()) return scales;
  const int64_t corner = op.get(attr::kAlignCorners) ? 1 : 0;
  for (size_t d = 2; d < std::min(in.size(), out.size()); ++d)
    scales.push_back(out[d] > corner ? static_cast<double>(in[d] - corner) /
                                           static_cast<double>(out[d] - corner)
                                     : 0.0);
  return scales;
}

}  // namespace octet
