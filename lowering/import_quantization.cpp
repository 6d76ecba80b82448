// quantize, dequantize and choose_qparams of quantized_decomposed.
#include <cmath>

#include <fmt/format.h>

#include "core/error.h"
#include "lowering/importer.h"
#include "lowering/quantized_constants.h"

namespace octet {
namespace {

// A constant list of numbers: scales or zero points.
std::vector<double> numbers(Importer& importer, const Node& node, const char* name) {
  const int index = importer.operand(node, name);
  if (index < 0 || importer.tensor(index).role != ProgramTensor::Role::kConstant)
    importer.fail(node, fmt::format("has {} that are computed, want constants", name));
  return constant_values(importer.tensor(index).data);
}

// Scale and zero point as the call gives them. fail()s on values that are not usable.
TensorQParams qparams_of(Importer& importer, const Node& node) {
  TensorQParams qparams;
  if (node.find_argument("scales") != nullptr) {
    const std::vector<double> scales = numbers(importer, node, "scales");
    qparams.scale.assign(scales.begin(), scales.end());
    if (const Argument* zeros = node.find_argument("zero_points"); zeros == nullptr || zeros->value_or_null() == nullptr) {
      qparams.zero_point.assign(scales.size(), 0);
    } else {
      for (double zero : numbers(importer, node, "zero_points")) {
        if (zero != std::nearbyint(zero)) importer.fail(node, "has zero points that are no integers; dequantize before");
        qparams.zero_point.push_back(static_cast<int32_t>(zero));
      }
    }
    const size_t rank = importer.input_shape(node, "input").size();
    qparams.axis = static_cast<int>(positive_dim(node.int_or("axis", 0), rank));
    if (qparams.axis < 0 || qparams.axis >= static_cast<int>(rank))
      importer.fail(node, fmt::format("has axis {}, want one of {} dimensions", qparams.axis, rank));
    const size_t channels = static_cast<size_t>(importer.input_shape(node, "input")[static_cast<size_t>(qparams.axis)]);
    if (qparams.scale.size() != channels || qparams.zero_point.size() != channels)
      importer.fail(node, fmt::format("has {} scales and {} zero points, want {}", qparams.scale.size(), qparams.zero_point.size(), channels));
  } else if (node.find_input("scale") != nullptr) {
    qparams.scale = {static_cast<float>(numbers(importer, node, "scale").at(0))};
    qparams.zero_point = {static_cast<int32_t>(numbers(importer, node, "zero_point").at(0))};
  } else {
    qparams.scale = {static_cast<float>(node.float_or("scale", 1))};
    qparams.zero_point = {static_cast<int32_t>(node.int_or("zero_point", 0))};
  }
  for (float scale : qparams.scale)
    if (!(scale > 0) || std::isinf(scale)) importer.fail(node, fmt::format("has scale {}, want a positive number", scale));
  return qparams;
}

// quant_min and quant_max where they are narrower than the dtype.
std::map<std::string, Attribute> quant_range(const Node& node, DType dtype) {
  std::map<std::string, Attribute> attributes;
  const IntegerRange range = integer_range(dtype);
  const int64_t low = node.int_or("quant_min", range.min), high = node.int_or("quant_max", range.max);
  if (low > range.min) attributes["quant_min"] = low;
  if (high < range.max) attributes["quant_max"] = high;
  return attributes;
}

// The choose_qparams node behind a scale that is computed at run time; null when it comes from anywhere else.
const Node* dynamic_origin(const Node& node) {
  const Value* scale = node.find_input("scale");
  const Node* producer = scale == nullptr ? nullptr : scale->producer();
  if (producer == nullptr) return nullptr;
  return producer->is("quantized_decomposed.choose_qparams") || producer->is("quantized_decomposed.choose_qparams_symmetric") ? producer : nullptr;
}

// With run-time scale and zero point the integers are never seen: quantize becomes fake_quantize_dynamic, dequantize vanishes.
void import_dynamic_quantize(Importer& importer, const Node& node, const Node& origin) {
  for (const Node* user : node.outputs().front()->users())
    if (!user->is("quantized_decomposed.dequantize_per_tensor") || dynamic_origin(*user) != &origin)
      return importer.refuse(node, "whose integers are used by something else than its dequantize");
  if (origin.find_input("input") != node.find_input("input")) return importer.refuse(node, "with the range of another tensor");
  const Argument* dtype = origin.find_argument("dtype");
  const DType* wanted = dtype == nullptr ? nullptr : dtype->find<DType>();
  const IntegerRange range = integer_range(wanted == nullptr ? DType::kInt8 : *wanted);
  const int64_t low = origin.int_or("quant_min", origin.int_or("qmin", range.min));
  const int64_t high = origin.int_or("quant_max", origin.int_or("qmax", range.max));
  const int x = importer.operand(node, "input");
  const int y = importer.emit_step(node, "fake_quantize_dynamic",
                                   {
                                       x
  },
                                   importer.tensor(x).shape, DType::kFloat32,
                                   {{"quant_min", low},
                                    {"quant_max", high},
                                    {"eps", origin.float_or("eps", 1.1920928955078125e-07)},
                                    {"symmetric", origin.is("quantized_decomposed.choose_qparams_symmetric")}});
  importer.alias(node.outputs().front(), y);
}

void import_choose_qparams(Importer& importer, const Node& node) {
  for (const Value* value : node.outputs())
    for (const Node* user : value->users())
      if (dynamic_origin(*user) != &node) return importer.refuse(node, "whose scale is used by something else than quantize and dequantize");
}

void import_quantize(Importer& importer, const Node& node) {
  if (const Node* origin = dynamic_origin(node)) return import_dynamic_quantize(importer, node, *origin);
  const Value* value = node.outputs().front();
  static_shape(*value);
  const DType dtype = value->meta->dtype;
  if (!is_integer(dtype) || size_of(dtype) > 4) return importer.refuse(node, fmt::format("to {}", name_of(dtype)));
  const TensorQParams qparams = qparams_of(importer, node);
  const int x = importer.operand(node, "input");
  ProgramOp& op = importer.emit(node, "quantize", {x}, quant_range(node, dtype));
  importer.program().tensors[static_cast<size_t>(op.outputs[0])].qparams = qparams;
}

// The integer tensor with these parameters: itself when it has them or has none yet, a second view of a constant otherwise.
int with_qparams(Importer& importer, const Node& node, int index, const TensorQParams& qparams) {
  ProgramTensor& tensor = importer.program().tensors[static_cast<size_t>(index)];
  if (!tensor.qparams) tensor.qparams = qparams;
  if (*tensor.qparams == qparams) return index;
  if (tensor.role == ProgramTensor::Role::kConstant) return importer.add_constant(tensor.name, tensor.data, qparams);
  importer.fail(
      node, fmt::format("reads %{} with another scale or zero point than it was quantized with; quantize and dequantize must agree", tensor.name));
}

void import_dequantize(Importer& importer, const Node& node) {
  const int x = importer.operand(node, "input");
  if (dynamic_origin(node) != nullptr) return importer.alias(node.outputs().front(), x);
  const DType dtype = importer.tensor(x).dtype;
  if (!is_integer(dtype) || size_of(dtype) > 4) return importer.refuse(node, fmt::format("of {}", name_of(dtype)));
  const bool has_zero_points = node.find_argument("zero_points") != nullptr && node.find_input("zero_points") != nullptr;
  if (has_zero_points && importer.tensor(x).role == ProgramTensor::Role::kConstant &&
      is_floating_point(importer.tensor(importer.operand(node, "zero_points")).dtype)) {
    // Zero points in real units (embedding tables): the constant is dequantized here.
    const size_t axis = static_cast<size_t>(positive_dim(node.int_or("axis", 0), importer.tensor(x).shape.size()));
    const Tensor real = dequantize_constant(importer.tensor(x).data, numbers(importer, node, "scales"), numbers(importer, node, "zero_points"),
                                            static_cast<int>(axis));
    return importer.alias(node.outputs().front(), importer.add_constant(node.name(), real));
  }
  importer.emit(node, "dequantize", {with_qparams(importer, node, x, qparams_of(importer, node))});
}

constexpr ImportRow kRows[] = {
    {"quantized_decomposed.quantize_per_tensor",      import_quantize      },
    {"quantized_decomposed.dequantize_per_tensor",    import_dequantize    },
    {"quantized_decomposed.quantize_per_channel",     import_quantize      },
    {"quantized_decomposed.dequantize_per_channel",   import_dequantize    },
    {"quantized_decomposed.choose_qparams",           import_choose_qparams},
    {"quantized_decomposed.choose_qparams_symmetric", import_choose_qparams},
};

}  // namespace

std::span<const ImportRow> quantization_import_rows() { return kRows; }

}  // namespace octet
