// Elementwise loops where oneDNN has no exact or no fast kernel: sums and products of bytes with
// zero points and of floats in any memory order, tables, changes of type or scale, copies, images.
#pragma once

#include <functional>

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"

namespace octet::onednn {

enum class Elementwise { kAdd, kMul };

// to = clamp(a * factor_a + b * factor_b) or clamp(a * b). a and b: u8 of `to`'s shape, strides of
// 0 where they repeat; to: u8 or s8. Arguments: a, b, to. Throws Refusal for memory orders that it
// does not support.
Loop elementwise_loop(Elementwise kind, const Stored& a, double factor_a, const Stored& b,
                      double factor_b, const Stored& to, const Clamp& clamp);

// to = function(from), by a table of 256 entries. from: u8 or s8, dense; to: u8, s8 or f32 in the
// same order. Arguments of this loop and the next ones: from, to.
Loop table_loop(const Stored& from, const Stored& to,
                const std::function<double(double)>& function);

// Quantizes `count` floats to integers in `range`, a part of the type's range.
Loop quantize_loop(int64_t count, const QuantParams& to, const StepRange& range);
// Dequantizes `count` integers.
Loop dequantize_loop(int64_t count, const QuantParams& from);
// Converts u8 to s8 or back, with the zero point shifted equally; the real values are unchanged.
Loop shift_loop(int64_t count);

// Copies elements to another order; types agree. Strides of 0 repeat.
Loop copy_loop(const Stored& from, const Stored& to);
// Whether copy_loop is faster than oneDNN's reorder: for long runs and repeated elements.
bool is_custom_copy(const Stored& from, const Stored& to);

// Sets every element to `real`. Argument: to.
Loop fill_loop(const Stored& to, double real);

// Floats: to = clamp(a * factor_a + b * factor_b), or clamp(a * b). a and b: `to`'s shape, strides
// of 0 where they repeat; to: without gaps. Arguments: a, b, to.
Loop real_loop(Elementwise kind, const Stored& a, float factor_a, const Stored& b, float factor_b,
               const Stored& to, const Clamp& clamp);

// Quantizes an input image in one pass, from three planes of floats to interleaved bytes: f32 [N,
// 3, H, W] row-major to u8 or s8 channels-last. Arguments: from, to.
Loop image_loop(const Stored& from, const Stored& to);

}  // namespace octet::onednn
