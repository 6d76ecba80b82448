// The inner loops of linears on rows quantized at run time (row_product.h), one per instruction
// set.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "backends/xnnpack/kernels/row_product.h"

namespace octet::xnnpack {

// Weights are packed in blocks of 16 columns: four elements of a column, then four of the next
// column, and so on. Packed nibbles have the next four elements of each column in their high
// halves.
inline constexpr int64_t kBlockColumns = 16;
inline constexpr int64_t kGroup = 4;
inline constexpr int64_t kTileBlocks = 4;  // neighboring blocks that share loads of x
inline constexpr int64_t kTileRows = 6;    // rows that share loads of weights

// y[rows, out] = clamp((x * w - zero_point[row] * sum[column] + term[row]) * scale[row] *
// scale[column] + bias[column])
struct RowProductView {
  const uint8_t* rows;
  int64_t stride;
  const RowParameters* parameters;
  const int8_t* weights;
  int64_t depth;        // elements of a column, a multiple of kGroup
  const int32_t* sums;  // sums, scale and bias: per column, padded to whole blocks
  const float* scale;
  const float* bias;
  float* y;
  int64_t out;
  float low, high;
  const int32_t* terms = nullptr;  // null: none
  int64_t pitch = 0;               // floats between rows of y; 0: out
  // y[rows, pitch] += x * w * scale[block, group, column of the block] instead, for whole blocks:
  // zero points, terms, biases and bounds do not count
  bool adds = false;   // only in run_groups and run_nibble_groups
  int64_t groups = 1;  // of `depth` elements each; more than 1: only run_groups
};

using RowLoop = void(const RowProductView& view, int64_t row, int64_t rows, int64_t block,
                     int64_t blocks);

struct RowKernel {
  std::string_view name;
  bool (*is_here)();  // whether this CPU supports it
  int lowest;         // least byte in `rows`: 0 for u8, -128 for s8
  // Rows [row, row + rows), blocks of columns [block, block + blocks).
  RowLoop* run;
  // As `run`, for views that add, on bytes or packed nibbles; these count 16 times. Null: none.
  RowLoop *run_groups = nullptr, *run_nibble_groups = nullptr;
};

// Packed constant weights and their sums, both padded to whole blocks.
struct PackedColumns {
  std::shared_ptr<int8_t[]> weights;
  std::vector<int32_t> sums;
};
// from: [out, in]; depth: in rounded up to whole groups. Throws std::bad_alloc.
PackedColumns pack_columns(const int8_t* from, int64_t out, int64_t in, int64_t depth);

// All kernels of this build, best first; the last one is portable C++.
std::span<const RowKernel> row_kernels();
const RowKernel& best_row_kernel();

}  // namespace octet::xnnpack
