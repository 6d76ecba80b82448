// Constants of a segment: as floats in real units, and packed in the layouts that primitives ask
// for.
#pragma once

#include <vector>

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

// The constant's values as floats in real units, row-major. Throws Refusal for types that have
// none.
std::vector<float> real_values(const ProgramTensor& constant);
// The constant input as floats, or `fallback` repeated when it is absent.
std::vector<float> parameter(const SegmentBuilder& builder, const ProgramOp& op, size_t i,
                             int64_t count, float fallback);

// `packed` weights: the constant in the layout that the primitive asked for, shared with other
// segments that want it so (packed.h).
Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain, const Tensor& constant,
                 const dnnl::memory::desc& packed);
Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain,
                 const ProgramTensor& constant, const dnnl::memory::desc& packed);
// As above, for values that were computed: not shared.
Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain,
                 const std::vector<float>& values, const dnnl::memory::desc& packed);

}  // namespace octet::onednn
