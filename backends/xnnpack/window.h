// The window of a convolution or pooling in two dimensions; one-dimensional ops get height 1.
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

// kernel: one or two spatial sizes. Reads stride (default: 1; for poolings the kernel), padding,
// dilation and output_padding.
Window window_of(const ProgramOp& op, const std::vector<int64_t>& kernel);
// As window_of, for a pooling. Extends bottom and right padding to the output size that ceil_mode
// gives. in, out: logical shapes of rank 3 or 4.
Window pooling_window_of(const ProgramOp& op, const std::vector<int64_t>& in,
                         const std::vector<int64_t>& out);

}  // namespace octet::xnnpack
