// Multiplies rows of floats by weights that stay integers in memory, 8 or 4 bits each (4 for 2 and
// 3), with scales and zero points per tensor, channel or group. With few rows memory bandwidth
// limits such products, so the loop reads the integers instead of expanded floats. With many rows
// arithmetic limits them: blocks of the weights become floats that stay in a core's cache.
//
// A vector has as many outputs as a register has floats. The weights of a vector follow each other
// in words of 32 bits, one word per output: inputs k to k + 7 (4 bits) or k to k + 3 (8 bits).
// Each input multiplies all outputs of a vector, so scales are vectors too, and no sum is across a
// register.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/kernels/parallel.h"
#include "core/base/tensor.h"
#include "lowering/program/program.h"

namespace octet {

// y[rows, out] = x[rows, in] * transpose(w) + bias[out]; x and y are floats, row-major.
struct WeightProduct {
  int64_t rows = 1;
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 1;              // per row of `in`
  int bits = 8;                    // per weight
  bool has_zero_points = false;    // other than 0
  bool has_bfloat_scales = false;  // scales take 16 bits
  bool is_bfloat = false;          // many rows: factors are rounded to bfloat16

  // from: x, pack_weights(), bias. scratch: scratch_bytes(). Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
  int64_t scratch_bytes() const;
  int64_t weights_bytes() const;  // of pack_weights()
};

// False when the weight is not stored as integers, its groups are too short, there are no rows, or
// the CPU has neither AVX2 nor NEON.
bool has_weight_product(const ProgramTensor& w, int64_t rows);
// Both require has_weight_product. wants_bfloat: multiply many rows in bfloat16 if the CPU can.
WeightProduct weight_product(const ProgramTensor& w, int64_t rows, bool wants_bfloat = false);
// Words and scales, the same for any number of rows. `out` is rounded up to whole vectors.
//   i32 [vectors, words per output, outputs of a vector]
//   f32 or bfloat16 [vectors, groups, outputs of a vector]: scales
//   f32 of that shape: scale * zero point, if there are zero points
Tensor pack_weights(const ProgramTensor& w);

}  // namespace octet
