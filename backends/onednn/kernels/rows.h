// Own loops over rows of floats whose scales are computed at run time: quantize, dequantize, and
// what follows an integer matrix product.
#pragma once

#include <cstdint>

#include "backends/onednn/clamp.h"
#include "backends/onednn/kernels/loop.h"
#include "lowering/program/dynamic_range.h"

namespace octet::onednn {

// Rows of one width; neighbouring ones, a block, share scale and zero point.
struct RowSizes {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t rows_per_block = 1;
  int64_t blocks() const { return rows / rows_per_block; }
};

// Arguments: x f32 [rows, width]; values u8, the same; scale f32 [blocks]; zero point s32 [blocks],
// in [0, 255]. The mapping's range has at most 256 steps.
Loop quantize_rows_loop(const RowSizes& sizes, const DynamicMapping& mapping);

// Arguments: values, scale, zero point, as above; y f32 [rows, width].
Loop dequantize_rows_loop(const RowSizes& sizes);

// In place, y[m, n] = clamp((sum[m, n] - zero_point[m] * sums[n]) * scale[m] * scale[n] + bias[n]).
// Arguments: sums s32 [rows, width], which become f32; scale and zero point of the blocks; and for
// each column the weights' sum (s32), scale and bias.
Loop scale_rows_loop(const RowSizes& sizes, const Clamp& clamp);

}  // namespace octet::onednn
