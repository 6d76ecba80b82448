// Rows of floats divided by their root mean square, to floats or bytes.
#pragma once

#include <cstdint>

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

// y = x / sqrt(mean(x^2) + eps) * weight for each of `rows` rows of `width` elements. x: f32, y:
// of type and scale `to`; may be x where that is f32. Arguments: x, weight f32 [width], y.
Loop rms_norm_loop(int64_t rows, int64_t width, double eps, const QuantParams& to);

}  // namespace octet::onednn
