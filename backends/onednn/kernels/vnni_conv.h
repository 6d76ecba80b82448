// Convolutions of bytes (u8 x s8) for AVX512-VNNI where oneDNN 3.2 is slow.
#pragma once

#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/kernels/vnni.h"

namespace octet::onednn {

// ---- depthwise: one input and one output channel per group, kernel [C, 1, kernel_h, kernel_w] of
// s8, row-major. oneDNN 3.2 spends a four-way multiplication on each kernel element; these kernels
// interleave four rows of the input, so that one instruction multiplies four kernel elements.

// Whether the kernel supports the shape; has_ also checks that this CPU has the instructions.
bool fits_depthwise_kernel(const ByteWindowShape& shape);
bool has_depthwise_kernel(const ByteWindowShape& shape);

// Arguments: x, y. Requires has_depthwise_kernel(shape).
Loop depthwise_loop(const ByteWindowShape& shape, const Tensor& weights, const ByteScales& scales);

// ---- images (up to 4 channels) and 1x1 convolutions, kernel [O, C, kernel_h, kernel_w] of s8,
// row-major. A kernel row of a channels-last image is a contiguous run of bytes, so one
// multiplication takes four of them, whatever their channels. oneDNN 3.2 spends one on the three
// channels of each pixel, and with few channels its overhead exceeds its multiplications.

// Whether the kernel supports the shape; has_ also checks that this CPU has the instructions.
bool fits_image_conv_kernel(const ByteWindowShape& shape);
bool has_image_conv_kernel(const ByteWindowShape& shape);

// Whether the kernel can add a tensor of y's shape, u8 and channels-last, before it rounds y.
// Requires has_image_conv_kernel(shape).
bool takes_residual(const ByteWindowShape& shape);

// Arguments: x, y, and with `adds` the tensor to add. Requires has_image_conv_kernel(shape).
Loop image_conv_loop(const ByteWindowShape& shape, const Tensor& weights, const ByteScales& scales,
                     bool adds);
// "pointwise convolution" or "image convolution".
const char* image_conv_name(const ByteWindowShape& shape);

}  // namespace octet::onednn
