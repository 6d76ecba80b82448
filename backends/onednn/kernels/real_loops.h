// Sums and products of two tensors of floats in any memory order, for what oneDNN has a reference
// kernel only or wants copied first.
#pragma once

#include "backends/onednn/clamp.h"
#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

enum class RealFunction { kSum, kProduct };

// to = clamp(a * factor_a + b * factor_b), or clamp(a * b). a and b: `to`'s shape, strides of 0
// where they repeat; to: without gaps. Arguments: a, b, to.
Loop real_loop(RealFunction function, const Stored& a, float factor_a, const Stored& b,
               float factor_b, const Stored& to, const Clamp& clamp);

}  // namespace octet::onednn
