// Tensors that are quantized while the segment runs, and the steps that produce and consume them.
#pragma once

#include <vector>

#include "backends/onednn/builder/segment_builder.h"
#include "backends/onednn/kernels/rows.h"
#include "lowering/program/dynamic_range.h"

namespace octet::onednn {

// A tensor quantized to u8 at run time: real = scale * (value - zero_point), with one scale and
// zero point per block of neighboring rows.
struct DynamicRows {
  Place values;      // u8 [rows, width], row-major
  Place scale;       // f32 [rows / rows_per_block]
  Place zero_point;  // s32 [rows / rows_per_block], in [0, 255]
  int64_t rows = 0;
  int64_t width = 0;
  int64_t rows_per_block = 1;
};

// Quantizes x, f32 [rows, width], row-major. Allocates values, scales and zero points. The range of
// `mapping` has at most 256 steps.
DynamicRows add_quantize_rows(SegmentBuilder& builder, Place x, int64_t rows, int64_t width,
                              int64_t rows_per_block, const DynamicMapping& mapping);

// y: f32 [rows, width].
void add_dequantize_rows(SegmentBuilder& builder, const DynamicRows& x, Place y);

// The numbers that convert an integer sum to a real, one entry per column.
struct ColumnTerms {
  std::vector<int32_t> sums;  // of the weights
  std::vector<float> scale;
  std::vector<float> bias;
};

// In place: y[m, n] = clamp((sum[m, n] - zero_point[m] * sums[n]) * scale[m] * scale[n] + bias[n]),
// then `finish`. sums: s32 [x.rows, columns], becomes f32. operand: of `finish`, f32 of that shape.
void add_scale_rows(SegmentBuilder& builder, const DynamicRows& x, Place sums,
                    const ColumnTerms& columns, const Clamp& clamp, RowFinish finish = {},
                    Place operand = {});

}  // namespace octet::onednn
