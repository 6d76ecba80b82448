// Multiplies few rows of floats by weights that stay integers in memory, 8 or 4 bits each, with
// scales and zero points per tensor, channel or group. Memory bandwidth limits such products, so
// the loop reads the integers instead of expanded floats.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/onednn/kernels/loop.h"
#include "core/base/tensor.h"
#include "lowering/program/program.h"

namespace octet::onednn {

// y[rows, out] = x[rows, in] * transpose(w) + bias[out]; x and y are floats, row-major.
struct WeightProduct {
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 1;     // per row of `in`
  int64_t rows = 1;       // of x
  int bits = 8;           // per value in memory
  bool is_signed = true;  // for values of 4 bits
};

// The weight [out, in] as the loop reads it.
struct PackedProduct {
  WeightProduct product;
  Tensor values;                  // u8
  std::vector<float> scale;       // [out rounded up, groups]
  std::vector<float> zero_point;  // as `scale`
};

// False when the weight is not stored as integers, its groups are too short, there are too many
// rows (oneDNN's float product is faster then), or the CPU lacks AVX2.
bool has_weight_product(const ProgramTensor& w, int64_t rows);
// Packs the weight for products with `rows` rows. Requires has_weight_product(w, rows).
PackedProduct pack_weight_product(const ProgramTensor& w, int64_t rows);

// Arguments: x, values, scale, zero point, bias, y.
Loop weight_product_loop(const WeightProduct& product);

}  // namespace octet::onednn
