// Adds the steps that convert tensors between memory orders, types and scales, and that write the
// segment's results in the form that its caller expects.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

// Returns the tensor in another order and quantization: `from` itself, or the result of a reorder,
// which is added once.
Stored convert(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params,
               const Dims& strides);
// As convert, to any order without gaps.
Stored to_dense(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params);
Stored to_real(SegmentBuilder& builder, int index, const Dims& strides);  // f32

// Copies the segment's results to the caller's memory, or lets the last op write there. Call it
// after the last op.
void finish_outputs(SegmentBuilder& builder);

// ---- each add_* appends a step to the segment

// to = function(from), by a table of 256 entries. from: u8 or s8, dense; to: u8, s8 or f32 in the
// same order.
void add_table(SegmentBuilder& builder, const Stored& from, const Stored& to,
               const std::function<double(double)>& function);

// Changes type or scale, not the order. from: dense.
void add_requantize(SegmentBuilder& builder, const Stored& from, const Stored& to);
// Quantizes floats to integers in `range`, a part of the type's range.
void add_quantize(SegmentBuilder& builder, const Stored& from, const Stored& to,
                  const StepRange& range);

// Copies elements to another order; types agree, or are floats. Strides of 0 repeat. Uses oneDNN's
// reorder where oneDNN has a fast one.
void add_copy(SegmentBuilder& builder, const Stored& from, const Stored& to);

// Sets every element to `real`.
void add_fill(SegmentBuilder& builder, const Stored& to, double real);

// Runs a kernel of backends/kernels that reads `inputs` and writes y.
template <typename Kernel>
void add_kernel(SegmentBuilder& builder, const char* what, Kernel kernel, std::vector<Place> inputs,
                Place y) {
  int64_t scratch = 0;
  if constexpr (requires { kernel.scratch_bytes(); })
    scratch = static_cast<int64_t>(kernel.scratch_bytes());
  Loop loop = loop_of(std::move(kernel), inputs.size(), scratch > 0);
  if (scratch > 0)
    inputs.push_back(builder.allocate({scratch}, {ElementType::u8, 1, 0}, {1}).place);
  inputs.push_back(y);
  builder.add_loop(what, std::move(loop), std::move(inputs));
}

}  // namespace octet::onednn
