// Reads constants of a segment as floats, and packs them into the layouts that primitives ask for.
#pragma once

#include <vector>

#include "backends/onednn/builder/segment_builder.h"

namespace octet::onednn {

// Returns the constant's real values, row-major. Throws Refusal for types without real values.
std::vector<float> real_values(const ProgramTensor& constant);
// Returns input i, a constant, as floats; `fallback` repeated when the input is absent.
std::vector<float> parameter(const SegmentBuilder& builder, const ProgramOp& op, size_t i,
                             int64_t count, float fallback);

// Packs a constant into the layout `packed`, which the primitive asked for. Segments that want the
// same layout share the result (packed.h).
Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain, const Tensor& constant,
                 const dnnl::memory::desc& packed);
Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain,
                 const ProgramTensor& constant, const dnnl::memory::desc& packed);
// As above, for computed values, which are not shared.
Place add_packed(SegmentBuilder& builder, const dnnl::memory::desc& plain,
                 const std::vector<float>& values, const dnnl::memory::desc& packed);

}  // namespace octet::onednn
