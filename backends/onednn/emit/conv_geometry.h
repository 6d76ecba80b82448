// Strides, dilations and padding of a convolution, as several emitters read them.
#pragma once

#include <array>

#include "backends/onednn/form.h"
#include "lowering/program/program.h"

namespace octet::onednn {

struct Geometry {
  Dims stride;
  Dims dilation;  // as oneDNN counts: 0 is dense
  Dims padding_begin;
  Dims padding_end;
  bool is_padded = false;
};

// Of a convolution or (transposed) a transposed one with these shapes of input, weight and output.
Geometry conv_geometry(const ProgramOp& op, const Dims& x, const Dims& w, const Dims& y,
                       bool transposed);

// dims[first...], at most three, behind as many `missing` as make three.
std::array<int64_t, 3> spatial(const Dims& dims, size_t first, int64_t missing);

}  // namespace octet::onednn
