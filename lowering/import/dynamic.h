// Quantization with scales that a run computes: choose_qparams, quantize and dequantize become one
// op.
#pragma once

#include "lowering/import/steps.h"

namespace octet {

// The choose_qparams node that gives the scale of a quantize or dequantize; null when it comes from
// anywhere else.
const Node* find_dynamic_origin(const Node& node);

// The integers that it is for, and what it makes of a range: quant_min, quant_max, eps,
// mapping and zero_point of fake_quantize_dynamic.
struct DynamicForm {
  enum class Blocks { kTensor, kRows, kGiven };  // kGiven: by the argument block_size
  DType dtype = DType::kInt8;
  Blocks blocks = Blocks::kTensor;
  Attributes mapping;
};
DynamicForm dynamic_form(const Node& origin);

// Nothing reads the integers: a quantize becomes fake_quantize_dynamic, its dequantize vanishes.
void import_dynamic_quantize(Steps& s, const Node& node, const Node& origin);
void import_dynamic_dequantize(Steps& s, const Node& node);
void import_choose_qparams(Steps& s, const Node& node);

// How many blocks of torchao's block_size each dimension of `shape` is cut into. Fails when they do
// not divide it.
Sizes block_counts(const Steps& s, const Node& node, const Sizes& shape);

}  // namespace octet
