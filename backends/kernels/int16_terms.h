// Turns the attributes and constants of an op that reads or writes int16 activations into the terms
// of its kernel. check_int16 (int16_ops.h) accepts the ops.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernels/int16_elements.h"
#include "backends/kernels/int16_product.h"
#include "lowering/program/program.h"

namespace octet {

// How a backend stores an activation.
struct Int16Place {
  RealForm form;
  std::vector<int64_t> strides;  // in elements; read by ops of two operands
};
inline bool is_float32(const ProgramTensor& tensor) { return tensor.dtype == DType::kFloat32; }
// The form that the Program declares.
RealForm real_form(const ProgramTensor& tensor);

// conv and linear. x, y: the forms in which the backend stores input and output.
Int16ProductTerms int16_product_terms(const Program& program, const ProgramOp& op,
                                      const RealForm& x, const RealForm& y);
// clamp, unary, and conversions between forms.
Int16Map int16_map(const Program& program, const ProgramOp& op, const RealForm& x,
                   const RealForm& y);
// Arithmetic of two activations. inputs: their places.
Int16Binary int16_binary(const Program& program, const ProgramOp& op,
                         std::span<const Int16Place> inputs, const Int16Place& output);
// Pools, and means over all spatial dimensions. May be called before the op is accepted, for a
// window of the input's rank.
Int16Pool int16_pool(const Program& program, const ProgramOp& op, const RealForm& x,
                     const RealForm& y);

}  // namespace octet
