// Loops over elements for what oneDNN has no exact or no fast kernel for: sums and products of
// bytes with zero points and of floats in any memory order, tables, changes of type or scale,
// copies, images.
#pragma once

#include <functional>

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

enum class Elementwise { kAdd, kMul };

// to = clamp(a * factor_a + b * factor_b) or clamp(a * b). a and b: u8 with `to`'s shape, strides
// of 0 where they repeat; to: u8 or s8. Arguments: a, b, to. Throws Refusal for orders that do not
// fit.
Loop elementwise_loop(Elementwise kind, const Stored& a, double factor_a, const Stored& b,
                      double factor_b, const Stored& to, const Clamp& clamp);

// to = function(from), by a table of 256 entries. from: u8 or s8, dense; to: u8, s8 or f32 in the
// same order. Arguments of this and the following: from, to.
Loop table_loop(const Stored& from, const Stored& to,
                const std::function<double(double)>& function);

// `count` floats to integers in `range`, which is part of the type's.
Loop quantize_loop(int64_t count, const QuantParams& to, const StepRange& range);
// `count` integers to floats.
Loop dequantize_loop(int64_t count, const QuantParams& from);
// u8 to s8 or back, with the zero point shifted by as much: the same reals.
Loop shift_loop(int64_t count);

// Copies elements to another order; types agree. Strides of 0 repeat.
Loop copy_loop(const Stored& from, const Stored& to);
// Whether copy_loop is faster than oneDNN's reorder: for long runs, and where elements repeat.
bool is_custom_copy(const Stored& from, const Stored& to);

// Every element becomes `real`. Argument: to.
Loop fill_loop(const Stored& to, double real);

// Floats: to = clamp(a * factor_a + b * factor_b), or clamp(a * b). a and b: `to`'s shape, strides
// of 0 where they repeat; to: without gaps. Arguments: a, b, to.
Loop real_loop(Elementwise kind, const Stored& a, float factor_a, const Stored& b, float factor_b,
               const Stored& to, const Clamp& clamp);

// An image on its way in: three planes of floats to interleaved bytes in one pass. f32 [N, 3, H, W]
// row-major to u8 or s8 channels-last. Arguments: from, to.
Loop image_loop(const Stored& from, const Stored& to);

}  // namespace octet::onednn
