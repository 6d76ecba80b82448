// Tensors that are made of numbers and sizes. Those of fixed sizes were computed before.
#include "tools/onnx/steps.h"

namespace octet {
namespace {

void give_filled(OnnxSteps& s, const std::string& value, const std::string& shape) {
  s.give(s.op("Expand", {value, shape}));
}

std::string shape_of_result(OnnxSteps& s) {
  const TensorMeta& meta = s.meta(s.result());
  return meta.is_static() ? s.ints(meta.shape()) : s.sizes("size");
}

void convert_zeros(OnnxSteps& s) { give_filled(s, s.number(0), shape_of_result(s)); }
void convert_ones(OnnxSteps& s) { give_filled(s, s.number(1), shape_of_result(s)); }
void convert_full(OnnxSteps& s) {
  give_filled(s, s.operand("fill_value", s.dtype(s.result())), shape_of_result(s));
}

std::string shape_of_operand(OnnxSteps& s) {
  const TensorMeta& meta = s.meta(s.result());
  return meta.is_static() ? s.ints(meta.shape()) : s.shape(s.x());
}
void convert_zeros_like(OnnxSteps& s) { give_filled(s, s.number(0), shape_of_operand(s)); }
void convert_ones_like(OnnxSteps& s) { give_filled(s, s.number(1), shape_of_operand(s)); }
void convert_full_like(OnnxSteps& s) {
  give_filled(s, s.operand("fill_value", s.dtype(s.result())), shape_of_operand(s));
}
void convert_fill(OnnxSteps& s) {
  give_filled(s, s.operand("value", s.dtype(s.result())), shape_of_operand(s));
}

void convert_scalar_tensor(OnnxSteps& s) {
  s.give(s.op("Identity", {s.operand("s", s.dtype(s.result()))}));
}

void convert_arange(OnnxSteps& s) {
  const DType dtype = s.dtype(s.result());
  const std::string start = s.has("start") ? s.operand("start", dtype) : s.number(0);
  const std::string step = s.has("step") ? s.operand("step", dtype) : s.number(1);
  s.give(s.op("Range", {start, s.operand("end", dtype), step}));
}

constexpr OnnxRow kFilledRows[] = {
    {"aten.zeros", convert_zeros},
    {"aten.ones", convert_ones},
    {"aten.full", convert_full},
    {"aten.empty", convert_zeros},
    {"aten.new_zeros", convert_zeros},
    {"aten.new_empty", convert_zeros},
    {"aten.new_ones", convert_ones},
    {"aten.new_full", convert_full},
    {"aten.zeros_like", convert_zeros_like},
    {"aten.empty_like", convert_zeros_like},
    {"aten.ones_like", convert_ones_like},
    {"aten.full_like", convert_full_like},
    {"aten.fill", convert_fill},
    {"aten.zero", convert_zeros_like},
    {"aten.scalar_tensor", convert_scalar_tensor},
    {"aten.arange", convert_arange},
};

}  // namespace

std::span<const OnnxRow> filled_onnx_rows() { return kFilledRows; }

}  // namespace octet
