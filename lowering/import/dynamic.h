// Imports dynamic quantization, whose scales are computed while the program runs: choose_qparams,
// quantize and dequantize become one op.
#pragma once

#include "lowering/import/steps.h"

namespace octet {

// The choose_qparams node that computes the scale of a quantize or dequantize; null when the scale
// comes from elsewhere.
const Node* find_dynamic_origin(const Node& node);

// The integer dtype and the mapping from a range to a scale: attributes quant_min, quant_max, eps,
// mapping and zero_point of fake_quantize_dynamic.
struct DynamicForm {
  enum class Blocks { kTensor, kRows, kGiven };  // kGiven: the argument block_size says
  DType dtype = DType::kInt8;
  Blocks blocks = Blocks::kTensor;
  Attributes mapping;
};
DynamicForm dynamic_form(const Node& origin);

// Imports a quantize whose integers only its dequantize reads as fake_quantize_dynamic; the
// dequantize vanishes.
void import_dynamic_quantize(Steps& s, const Node& node, const Node& origin);
void import_dynamic_dequantize(Steps& s, const Node& node);
void import_choose_qparams(Steps& s, const Node& node);

// The number of blocks of torchao's block_size along each dimension of `shape`. Fails when
// block_size does not divide it.
Sizes block_counts(const Steps& s, const Node& node, const Sizes& shape);

}  // namespace octet
