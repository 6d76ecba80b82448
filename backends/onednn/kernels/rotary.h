// Rotary position embeddings of floats in any memory order.
#pragma once

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

// y = x * cosine + (-second half of x, first half of x) * sine. The halves are those of the last
// dimension (at least 4 elements), which all four have without gaps. factors: the strides of both
// cosine and sine, stretched to x's shape. Arguments: x, cosine, sine, y (another place than x).
Loop rotary_loop(const Stored& x, const Dims& factors, const Stored& y);

}  // namespace octet::onednn
