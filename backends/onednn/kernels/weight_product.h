// Products of few rows of floats with weights that stay integers in memory, 8 or 4 bits each, with
// scales and zero points per tensor, channel or group. Such a product is bound by how fast the
// weights come from memory, so the loop reads the integers themselves.
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
  int64_t groups = 1;     // in a row of `in`
  int64_t rows = 1;       // of x
  int bits = 8;           // of a value in memory
  bool is_signed = true;  // of values of 4 bits
};

// What the loop reads of the weight [out, in].
struct PackedProduct {
  WeightProduct product;
  Tensor values;                  // u8
  std::vector<float> scale;       // [out rounded up, groups]
  std::vector<float> zero_point;  // as `scale`
};

// False when the weight is not stored as integers, its groups are too short, the rows are too many
// (then oneDNN's float product is faster), or the CPU lacks AVX2.
bool has_weight_product(const ProgramTensor& w, int64_t rows);
// The weight packed for products with `rows` rows. Requires has_weight_product(w, rows).
PackedProduct pack_weight_product(const ProgramTensor& w, int64_t rows);

// Arguments: x, values, scale, zero point, bias, y.
Loop weight_product_loop(const WeightProduct& product);

}  // namespace octet::onednn
