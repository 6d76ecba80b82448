// Steps of loops over bytes (backends/onednn/kernels/byte_loops.h): each add_* appends one to the
// segment.
#pragma once

#include <functional>

#include "backends/onednn/builder/segment_builder.h"
#include "backends/onednn/clamp.h"

namespace octet::onednn {

// to = function(from), by a table of 256 entries. from: u8 or s8, dense; to: u8, s8 or f32 in the
// same order.
void add_table(SegmentBuilder& builder, const Stored& from, const Stored& to,
               const std::function<double(double)>& function);

// The same reals with another type or scale and the same order. from: dense.
void add_requantize(SegmentBuilder& builder, const Stored& from, const Stored& to);
// Floats to integers in `range`, which is part of the type's.
void add_quantize(SegmentBuilder& builder, const Stored& from, const Stored& to,
                  const StepRange& range);

// The same elements in another order; types agree. Strides of 0 repeat. By oneDNN's reorder where
// it has a fast one.
void add_copy(SegmentBuilder& builder, const Stored& from, const Stored& to);

// Every element becomes `real`.
void add_fill(SegmentBuilder& builder, const Stored& to, double real);

}  // namespace octet::onednn
