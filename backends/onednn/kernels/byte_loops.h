// Own loops for what oneDNN has no exact kernel for: integer elementwise ops with zero points,
// tables, averages, strided copies. Each add_* appends one step to the segment.
#pragma once

#include <functional>
#include <optional>

#include "backends/onednn/builder.h"

namespace octet::onednn {

// The clamp of an op's output in real units; a missing bound is unbounded.
struct Clamp {
  std::optional<double> min;
  std::optional<double> max;
  bool is_needed() const { return min || max; }
};

// The clamp in integers: [lowest, highest] of the type, narrowed. Requires an integer quantity.
struct StepRange {
  int low;
  int high;
};
StepRange clamp_in_steps(const Quantity& quantity, const Clamp& clamp);
// round_half_even(real / scale) + zero point, clamped to the type.
int quantize_one(double real, const Quantity& quantity);

enum class Elementwise { kAdd, kMul };

// to = clamp(a * factor_a + b * factor_b) or clamp(a * b). a and b: u8 with `to`'s shape, strides
// of 0 where they repeat; to: u8 or s8.
void add_elementwise(SegmentBuilder& builder, Elementwise kind, const Stored& a, double factor_a,
                     const Stored& b, double factor_b, const Stored& to, const Clamp& clamp);

// to = function(from), by a table of 256 entries. from: u8 or s8, dense; to: u8, s8 or f32 in the
// same order.
void add_table(SegmentBuilder& builder, const Stored& from, const Stored& to,
               const std::function<double(double)>& function);

// The same reals in another quantity and the same order. from: dense.
void add_change_of_quantity(SegmentBuilder& builder, const Stored& from, const Stored& to);
// Floats to integers in `range`, which is part of the type's.
void add_quantize(SegmentBuilder& builder, const Stored& from, const Stored& to,
                  const StepRange& range);

// f32 [N, 3, H, W] row-major to u8 or s8 channels-last.
void add_image(SegmentBuilder& builder, const Stored& from, const Stored& to);

// The same elements in another order; types agree. Strides of 0 repeat.
void add_copy(SegmentBuilder& builder, const Stored& from, const Stored& to);

// Every element becomes `real`.
void add_fill(SegmentBuilder& builder, const Stored& to, double real);

// One output position along one spatial axis: inputs [begin, end), and what to divide by.
struct Window {
  int64_t begin;
  int64_t end;
  int64_t count;
};

// Averages over windows, one list per spatial axis (exactly 3, outermost first). x and y: [N, C, D,
// H, W] channels-last without gaps; x u8 or f32, y u8, s8 or f32. divisor: 0 for the product of the
// windows' counts.
void add_average(SegmentBuilder& builder, const Stored& x, const Stored& y,
                 std::vector<Window> (&windows)[3], int64_t divisor, const Clamp& clamp);

// Softmax of rows of `width` floats, one after the other in memory. Only where
// has_softmax_kernel().
bool has_softmax_kernel();
void add_softmax(SegmentBuilder& builder, const Stored& x, const Stored& y, int64_t width);

// Maxima over the same kind of windows; x and y: u8 with one scale and zero point.
void add_maximum(SegmentBuilder& builder, const Stored& x, const Stored& y,
                 std::vector<Window> (&windows)[3]);

}  // namespace octet::onednn
