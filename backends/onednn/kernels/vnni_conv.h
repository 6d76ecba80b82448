// Convolutions of bytes (u8 x s8) for AVX512-VNNI that oneDNN 3.2 does slowly.
#pragma once

#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/kernels/vnni.h"

namespace octet::onednn {

// ---- depthwise: one input and one output channel a group, kernel [C, 1, kernel_h, kernel_w] of
// s8, row-major. oneDNN 3.2 spends one multiplication of four on each kernel element; here four
// rows of the input are interleaved, so that one instruction does four kernel elements.

// Whether the shape is one that the kernel was written for; and this CPU has the instructions, too.
bool fits_depthwise_kernel(const ByteWindowShape& shape);
bool has_depthwise_kernel(const ByteWindowShape& shape);

// Arguments: x, y. Requires has_depthwise_kernel(shape).
Loop depthwise_loop(const ByteWindowShape& shape, const Tensor& weights, const ByteScales& scales);

// ---- images (up to 4 channels) and 1x1 convolutions, kernel [O, C, kernel_h, kernel_w] of s8,
// row-major. A kernel row of a channels-last image is one run of bytes, so that every four bytes of
// it are one multiplication, whatever channel they belong to. oneDNN 3.2 spends one on the three
// channels of each pixel, and with few channels more time around its multiplications than in them.

// Whether the shape is one that the kernel was written for; and this CPU has the instructions, too.
bool fits_image_conv_kernel(const ByteWindowShape& shape);
bool has_image_conv_kernel(const ByteWindowShape& shape);

// Whether it can add a tensor of y's shape, u8 and channels-last, before y is rounded. Requires
// has_image_conv_kernel(shape).
bool takes_residual(const ByteWindowShape& shape);

// Arguments: x, y, and (adds) the tensor to add. Requires has_image_conv_kernel(shape).
Loop image_conv_loop(const ByteWindowShape& shape, const Tensor& weights, const ByteScales& scales,
                     bool adds);
// "pointwise convolution" or "image convolution".
const char* image_conv_name(const ByteWindowShape& shape);

}  // namespace octet::onednn
