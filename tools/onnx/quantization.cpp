// quantize and dequantize with constant scales, as QuantizeLinear and DequantizeLinear, which
// runtimes fuse into their neighbours.
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lowering/import/dynamic.h"
#include "tools/onnx/dynamic.h"
#include "tools/onnx/quantized.h"

namespace octet {
namespace {

// Whether the opset has these integers and blocks.
bool has_form(OnnxSteps& s, const OnnxQParams& qparams, bool is_quantize) {
  if (qparams.is_blocked() && !s.exporter.need(s.node, 21, "scales of blocks")) return false;
  const bool is_narrow = size_of(qparams.dtype) == 1;
  if (!is_narrow && size_of(qparams.dtype) == 2 &&
      !s.exporter.need(s.node, 21, fmt::format("integers of {}", name_of(qparams.dtype))))
    return false;
  const bool is_int32 = qparams.dtype == DType::kInt32;
  for (int64_t zero : qparams.zero_point)
    if (is_int32 && zero != 0) return s.refuse("of int32 with a zero point"), false;
  if (is_narrow || size_of(qparams.dtype) == 2 || (is_int32 && !is_quantize)) return true;
  s.refuse(fmt::format("to {}", name_of(qparams.dtype)));
  return false;
}

bool is_static(const Node& node, bool is_wanted_dequantize) {
  const bool is_quantize = node.is("quantized_decomposed.quantize_per_tensor") ||
                           node.is("quantized_decomposed.quantize_per_channel") ||
                           node.is("torchao.quantize_affine");
  return (is_wanted_dequantize ? is_dequantize(node) : is_quantize) &&
         find_dynamic_origin(node) == nullptr;
}

// int8 that goes from a quantize to dequantizes alone can as well be u8 with all zero points moved
// by 128: the same reals. ONNX Runtime's products on x86 want that, and its own rewrite to it
// leaves out what several dequantizes read.
bool is_moved(const Value& integers) {
  const Node* producer = integers.producer();
  if (producer == nullptr || !is_static(*producer, false) || integers.is_output() ||
      OnnxSteps::dtype(&integers) != DType::kInt8)
    return false;
  for (const Node* user : integers.users())
    if (!is_static(*user, true)) return false;
  return true;
}

void move(OnnxQParams& qparams) {
  qparams.dtype = DType::kUInt8;
  qparams.low += 128;
  qparams.high += 128;
  for (int64_t& zero : qparams.zero_point) zero += 128;
}

// ---- limits that the integers have anyway

struct Limits {
  double low, high;
};
std::optional<Limits> limits_of(const Node& node) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  if (node.is("aten.relu6")) return Limits{0, 6};
  if (node.is("aten.hardtanh"))
    return Limits{node.float_or("min_val", -1), node.float_or("max_val", 1)};
  if (node.is("aten.clamp") && node.find_input("min") == nullptr &&
      node.find_input("max") == nullptr)
    return Limits{node.float_or("min", -kNone), node.float_or("max", kNone)};
  return std::nullopt;
}

// What is quantized: what is behind a function that limits, where its limits are no nearer than the
// ends of the integers. Runtimes know products in front of a quantize.
Value* without_limits(Value* x, const OnnxQParams& qparams) {
  const Node* node = x->producer();
  const std::optional<Limits> limits = node == nullptr ? std::nullopt : limits_of(*node);
  if (!limits || !qparams.is_per_tensor() || node->target().find("_.") != std::string::npos)
    return x;
  const double scale = static_cast<double>(qparams.scale[0]),
               zero = static_cast<double>(qparams.zero_point[0]);
  const bool is_idle =
      std::nearbyint(limits->low / scale) + zero <= static_cast<double>(qparams.low) &&
      std::nearbyint(limits->high / scale) + zero >= static_cast<double>(qparams.high);
  Value* behind = node->find_input(node->find_input("self") != nullptr ? "self" : "input");
  return is_idle && OnnxSteps::dtype(behind) == DType::kFloat32 ? behind : x;
}

void convert_quantize(OnnxSteps& s) {
  if (find_dynamic_origin(s.node) != nullptr) return convert_dynamic_quantize(s);
  std::string why;
  std::optional<OnnxQParams> qparams = find_qparams(s.node, why);
  if (!qparams) return s.refuse(why);
  if (!has_form(s, *qparams, true)) return;
  if (is_moved(*s.result())) move(*qparams);
  Value* x = without_limits(s.self(), *qparams);
  std::string y = quantized(s, s.cast(x, DType::kFloat32), *qparams);
  const IntegerRange range = integer_range(qparams->dtype);
  if (qparams->low > range.min || qparams->high < range.max)
    y = s.op("Clip", {y, s.number(static_cast<double>(qparams->low), qparams->dtype),
                      s.number(static_cast<double>(qparams->high), qparams->dtype)});
  s.give(y);
}

void convert_dequantize(OnnxSteps& s) {
  if (find_dynamic_origin(s.node) != nullptr) return convert_dynamic_dequantize(s);
  std::string why;
  std::optional<OnnxQParams> qparams = find_qparams(s.node, why);
  if (!qparams) return s.refuse(why);
  if (!has_form(s, *qparams, false)) return;
  if (is_moved(*s.self())) move(*qparams);
  const GraphInput* input = s.exporter.graph().find_input(s.self());
  const std::optional<StoredWeight> weight = find_stored_weight(s.result());
  std::string y;
  if (weight && qparams->is_blocked())
    y = dequantized(s, input->fqn, *weight);
  else
    y = dequantized(s, s.x(), *qparams);
  const DType dtype = s.dtype(s.result());
  s.give(dtype == DType::kFloat32 ? y : s.cast(y, dtype));
}

constexpr OnnxRow kQuantizationRows[] = {
    {"quantized_decomposed.quantize_per_tensor", convert_quantize},
    {"quantized_decomposed.dequantize_per_tensor", convert_dequantize},
    {"quantized_decomposed.quantize_per_channel", convert_quantize},
    {"quantized_decomposed.dequantize_per_channel", convert_dequantize},
    {"quantized_decomposed.quantize_per_channel_group", convert_quantize},
    {"quantized_decomposed.dequantize_per_channel_group", convert_dequantize},
    {"torchao.quantize_affine", convert_quantize},
    {"torchao.dequantize_affine", convert_dequantize},
};

}  // namespace

std::span<const OnnxRow> quantization_onnx_rows() { return kQuantizationRows; }

}  // namespace octet
