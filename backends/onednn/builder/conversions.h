// Conversions of tensors between orders, types and scales, and of the segment's results to what
// its caller wants.
#pragma once

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

// The same reals in another order and quantization: itself, or through a reorder (made once).
Stored convert(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params,
               const Dims& strides);
// Of any order without gaps.
Stored to_dense(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params);
Stored to_real(SegmentBuilder& builder, int index, const Dims& strides);  // f32

// Copies what the segment gives back to where its caller wants it, or lets the last op write
// there. To be called after the last op.
void finish_outputs(SegmentBuilder& builder);

}  // namespace octet::onednn
