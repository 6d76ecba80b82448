// Loops over rows of floats with scales computed at run time: quantize, dequantize, and scale the
// sums of an integer matrix product.
#pragma once

#include <cstdint>

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"
#include "lowering/program/dynamic_range.h"

namespace octet::onednn {

// Rows of one width. Neighboring rows form blocks that share scale and zero point.
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

// The work on a row of results while it is in the L1 cache: apply a function, then add or
// multiply by a row of another tensor.
enum class RowFunction { kNone, kSilu, kGelu, kGeluTanh };
enum class RowOperand { kNone, kSummand, kFactor };
struct RowFinish {
  RowFunction function = RowFunction::kNone;
  RowOperand operand = RowOperand::kNone;
};

// In place: y[m, n] = clamp((sum[m, n] - zero_point[m] * sums[n]) * scale[m] * scale[n] + bias[n]),
// then `finish`. Arguments: sums s32 [rows, width], which become f32; scale and zero point of the
// blocks; the weights' sum (s32), scale and bias of each column; the operand f32 [rows, width], if
// any.
Loop scale_rows_loop(const RowSizes& sizes, const Clamp& clamp, RowFinish finish = {});

}  // namespace octet::onednn
