// Products of few rows of floats with weights that stay integers in memory, 8 or 4 bits each, with
// scales and zero points per tensor, channel or group. Such a product is bound by how fast the
// weights come from memory; an own loop reads the integers themselves.
#pragma once

#include <optional>

#include "backends/onednn/builder.h"

namespace octet::onednn {

struct WeightProduct {
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 1;     // in a row of `in`
  int64_t rows = 1;       // of x
  int bits = 8;           // of a value in memory
  bool is_signed = true;  // of values of 4 bits
  Stored values;          // packed
  Stored scale;           // f32 [out rounded up, groups]
  Stored zero_point;      // f32, as `scale`
};

// False when the weight [out, in] is not stored as integers, its groups are too short, the rows are
// too many (then oneDNN's float product is faster), or the CPU lacks AVX2.
bool has_weight_product(const ProgramTensor& w, int64_t rows);
// The weight packed for products with `rows` rows; nullopt without such a product.
std::optional<WeightProduct> find_weight_product(SegmentBuilder& builder, const ProgramTensor& w,
                                                 int64_t rows);

// y[rows, out] = x[rows, in] * transpose(w) + bias[out]; x and y are floats, row-major.
void add_weight_product(SegmentBuilder& builder, const WeightProduct& product, Place x, Place bias,
                        Place y);

}  // namespace octet::onednn
