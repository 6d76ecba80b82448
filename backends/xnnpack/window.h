// The sliding window of convolutions and poolings in two dimensions; one-dimensional ops get height
// 1.
#pragma once

#include <cstdint>
#include <vector>

#include "lowering/program/program.h"

namespace octet::xnnpack {

struct Window {
  uint32_t kernel_height = 1, kernel_width = 1;
  uint32_t stride_height = 1, stride_width = 1;
  uint32_t dilation_height = 1, dilation_width = 1;
  uint32_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  uint32_t adjust_height = 0, adjust_width = 0;  // output_padding of a transposed convolution

  int64_t taps() const { return int64_t{kernel_height} * kernel_width; }
  bool has_padding() const { return (pad_top | pad_left | pad_bottom | pad_right) != 0; }
};

// kernel: spatial sizes, 1 or 2 of them. Reads stride (default: 1; the kernel for poolings),
// padding, dilation and output_padding.
Window window_of(const ProgramOp& op, const std::vector<int64_t>& kernel);
// As window_of, for a pooling; grows bottom and right padding so that the output gets the size that
// ceil_mode gave it. in, out: logical shapes of rank 3 or 4.
Window pooling_window_of(const ProgramOp& op, const std::vector<int64_t>& in,
                         const std::vector<int64_t>& out);

}  // namespace octet::xnnpack
