// Depthwise convolution of bytes (u8 x s8) for AVX512-VNNI: one input and one output channel a
// group. oneDNN 3.2 spends one multiplication of four on each kernel element; here four rows of the
// input are interleaved, so that one instruction does four kernel elements.
#pragma once

#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/kernels/vnni.h"

namespace octet::onednn {

// Kernel [C, 1, kernel_h, kernel_w] of s8, row-major; as many outputs as channels.

// Whether the shape is one that the kernel was written for; and this CPU has the instructions, too.
bool fits_depthwise_kernel(const ByteWindowShape& shape);
bool has_depthwise_kernel(const ByteWindowShape& shape);

// Arguments: x, y. Requires has_depthwise_kernel(shape).
Loop depthwise_loop(const ByteWindowShape& shape, const Tensor& weights, const ByteScales& scales);

}  // namespace octet::onednn
