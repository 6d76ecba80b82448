// Convolution of images (up to 4 channels) and 1x1 convolution (u8 x s8) for AVX512-VNNI. A kernel
// row of a channels-last image is one run of bytes, so that every four bytes of it are one
// multiplication, whatever channel they belong to. oneDNN 3.2 spends one on the three channels of
// each pixel, and with few channels more time around its multiplications than in them.
#pragma once

#include <cstdint>
#include <span>

#include "backends/onednn/builder.h"
#include "backends/onednn/kernels/vnni.h"

namespace octet::onednn {

// Kernel [O, C, kernel_h, kernel_w] of s8, row-major.

// Whether the shape is one that the kernel was written for; and this CPU has the instructions, too.
bool fits_image_conv_kernel(const ByteWindowShape& shape);
bool has_image_conv_kernel(const ByteWindowShape& shape);

// Whether it can add a tensor of y's shape, u8 and channels-last, before y is rounded. Requires
// has_image_conv_kernel(shape).
bool takes_residual(const ByteWindowShape& shape);

// Appends one step. Requires has_image_conv_kernel(shape). residual: null for none.
void add_image_conv(SegmentBuilder& builder, const ByteWindowShape& shape, const Tensor& weights,
                    const ByteScales& scales, const Place& x, const Place& y,
                    const Place* residual);

}  // namespace octet::onednn
