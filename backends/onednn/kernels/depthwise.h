// Depthwise convolution of bytes (u8 x s8) for AVX512-VNNI: one input and one output channel a
// group. oneDNN 3.2 spends one multiplication of four on each kernel element; here four rows of the
// input are interleaved, so that one instruction does four kernel elements.
#pragma once

#include <cstdint>
#include <span>

#include "backends/onednn/builder.h"
#include "backends/onednn/kernels/vnni.h"

namespace octet::onednn {

// x: u8 [N, C, H, W] channels-last; y: the same with its own H and W, u8 or s8. Kernel [C, 1,
// kernel_h, kernel_w] of s8, row-major.
struct DepthwiseShape {
  int64_t batch = 1, channels = 1;
  int64_t height = 1, width = 1, out_height = 1, out_width = 1;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t padding_h = 0, padding_w = 0;  // in front
};

// Whether the shape is one that the kernel was written for; and this CPU has the instructions, too.
bool fits_depthwise_kernel(const DepthwiseShape& shape);
bool has_depthwise_kernel(const DepthwiseShape& shape);

// Appends one step. Requires has_depthwise_kernel(shape).
void add_depthwise(SegmentBuilder& builder, const DepthwiseShape& shape, const Tensor& weights,
                   const ByteScales& scales, const Place& x, const Place& y);

}  // namespace octet::onednn
