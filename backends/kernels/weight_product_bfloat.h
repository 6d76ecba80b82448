// Weight-only products of many rows in bfloat16: both factors are rounded to bfloat16, an
// instruction adds the products of two inputs to each of 16 sums, and sums are float32.
#pragma once

#include <cstdint>

#include "backends/kernels/weight_blocks.h"

namespace octet {

// Whether this CPU has the instruction (AVX512-BF16) and groups have an even number of inputs.
bool has_bfloat_product(const WeightProduct& p);
// to: [rows, in] of bfloat16.
void round_to_bfloat(const WeightProduct& p, const float* x, uint16_t* to);
// Computes panels [first, last) of outputs, of kPanel vectors each. x: round_to_bfloat().
void multiply_bfloat_panels(const WeightProduct& p, const WeightArguments& a, const uint16_t* x,
                            int64_t first, int64_t last);

}  // namespace octet
