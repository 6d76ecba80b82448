// Steps that convert tensors between orders, types and scales, and the segment's results to what
// its caller wants; and the loops and kernels that do it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

// The tensor in another order and quantization: itself, or through a reorder (made once).
Stored convert(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params,
               const Dims& strides);
// In any order without gaps.
Stored to_dense(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params);
Stored to_real(SegmentBuilder& builder, int index, const Dims& strides);  // f32

// Copies what the segment gives back to where its caller wants it, or lets the last op write
// there. To be called after the last op.
void finish_outputs(SegmentBuilder& builder);

// ---- each add_* appends a step to the segment

// to = function(from), by a table of 256 entries. from: u8 or s8, dense; to: u8, s8 or f32 in the
// same order.
void add_table(SegmentBuilder& builder, const Stored& from, const Stored& to,
               const std::function<double(double)>& function);

// Changes type or scale and keeps the order. from: dense.
void add_requantize(SegmentBuilder& builder, const Stored& from, const Stored& to);
// Floats to integers in `range`, which is part of the type's.
void add_quantize(SegmentBuilder& builder, const Stored& from, const Stored& to,
                  const StepRange& range);

// Copies elements to another order; types agree. Strides of 0 repeat. By oneDNN's reorder where
// it has a fast one.
void add_copy(SegmentBuilder& builder, const Stored& from, const Stored& to);

// Every element becomes `real`.
void add_fill(SegmentBuilder& builder, const Stored& to, double real);

// A kernel of backends/kernels that reads `inputs` and writes y.
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
