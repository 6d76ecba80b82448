// Converts filters and biases of convolutions to XNNPACK's layouts and integers.
#pragma once

#include "backends/xnnpack/stage.h"

namespace octet::xnnpack {

enum class FilterLayout {
  kConvolution,  // [O, C/groups, spatial] -> [O, KH, KW, C/groups]
  kDepthwise,    // [O, 1, spatial] -> [1, KH, KW, O]
  kTransposed,   // [C, O/groups, spatial] -> [O, KH, KW, C/groups]
};

// Value ids of the filter and bias of a convolution-like op: inputs x, w, bias?. An absent bias
// becomes zeros.
struct FilterAndBias {
  uint32_t filter;
  uint32_t bias;
};
FilterAndBias define_filter_and_bias(StageBuilder& builder, const ProgramOp& op,
                                     FilterLayout layout, int64_t groups);

// Defines a depthwise filter [1, KH, KW, channels] whose real weights all equal `weight`, and a
// bias of 0. like: the input, which determines the dtype.
FilterAndBias define_uniform_depthwise(StageBuilder& builder, const ProgramTensor& like,
                                       size_t height, size_t width, size_t channels, double weight);

// The largest scale x * scale w / scale y over the channels of an integer convolution: output steps
// per accumulator step.
double largest_requantization_scale(const Program& program, const ProgramOp& op);
// Whether XNNPACK supports these scales of all channels of an integer convolution to 8 bits.
bool takes_requantization_scales(const Program& program, const ProgramOp& op);

}  // namespace octet::xnnpack
