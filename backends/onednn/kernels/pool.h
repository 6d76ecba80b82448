// Pooling over windows of channels-last tensors. x and y: [N, C, D, H, W], channels-last without
// gaps. Arguments: x, y.
#pragma once

#include <vector>

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

// One output position along one spatial axis: its inputs [begin, end), and the divisor.
struct Window {
  int64_t begin;
  int64_t end;
  int64_t count;
};

// Averages over windows, one list per spatial axis (exactly 3, outermost first). x: u8 or f32; y:
// u8, s8 or f32. divisor: 0 uses the product of the windows' counts.
Loop average_loop(const Stored& x, const Stored& y, const std::vector<Window> (&windows)[3],
                  int64_t divisor, const Clamp& clamp);

// Maxima over windows; x and y: u8 with one scale and zero point.
Loop maximum_loop(const Stored& x, const Stored& y, const std::vector<Window> (&windows)[3]);

}  // namespace octet::onednn
