// Quantization with scales that are computed at run time. Used by import_*.cpp only.
#pragma once

#include "lowering/import/importer.h"

namespace octet {

// The choose_qparams node that gives the scale of a quantize or dequantize; null when it comes from
// anywhere else.
const Node* find_dynamic_origin(const Node& node);

// The integers that it is for, and what it makes of a range: quant_min, quant_max, eps,
// mapping and zero_point of fake_quantize_dynamic (program.h).
struct DynamicForm {
  enum class Blocks { kTensor, kRows, kGiven };  // kGiven: by the argument block_size
  DType dtype = DType::kInt8;
  Blocks blocks = Blocks::kTensor;
  Attributes mapping;
};
DynamicForm dynamic_form(const Node& origin);

// The integers are never seen: a quantize becomes fake_quantize_dynamic, its dequantize vanishes.
void import_dynamic_quantize(Importer& importer, const Node& node, const Node& origin);
void import_dynamic_dequantize(Importer& importer, const Node& node);
void import_choose_qparams(Importer& importer, const Node& node);

// How many blocks of torchao's block_size each dimension of `shape` is cut into. Fails when they do
// not divide it.
Sizes block_counts(const Importer& importer, const Node& node, const Sizes& shape);

}  // namespace octet
