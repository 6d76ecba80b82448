// Imports quantize and dequantize of quantized_decomposed and torchao; dynamic.cpp imports those
// with scales computed at run time.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/import/dynamic.h"
#include "lowering/import/steps.h"
#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

// Reads a constant list of numbers: scales or zero points.
std::vector<double> numbers(Steps& s, const char* name) {
  const int index = s.input(name);
  if (index < 0 || !s.tensor(index).is_constant())
    s.fail(fmt::format("has {} that are computed, want constants", name));
  return constant_values(constant_data(s.tensor(index)));
}

// Reads scale and zero point of integers of `dtype` from the call. Fails on invalid values.
TensorQParams qparams_of(Steps& s, const Node& node, DType dtype) {
  TensorQParams qparams;
  if (node.find_argument("scales") != nullptr) {
    const std::vector<double> scales = numbers(s, "scales");
    qparams.scale.assign(scales.begin(), scales.end());
    if (const Argument* zeros = node.find_argument("zero_points");
        zeros == nullptr || zeros->value_or_null() == nullptr) {
      qparams.zero_point.assign(scales.size(), 0);
    } else {
      for (double zero : numbers(s, "zero_points")) {
        if (zero != std::nearbyint(zero))
          s.fail("has zero points that are not integers; dequantize first");
        qparams.zero_point.push_back(static_cast<int32_t>(zero));
      }
    }
    const size_t rank = s.input_shape("input").size();
    qparams.axis = static_cast<int>(positive_dim(node.int_or("axis", 0), rank));
    if (qparams.axis < 0 || qparams.axis >= static_cast<int>(rank))
      s.fail(fmt::format("has axis {}, want one of {} dimensions", qparams.axis, rank));
    if (!s.sizes(s.input("input"))[static_cast<size_t>(qparams.axis)].is_number())
      s.fail("has a scale for each slice along a dimension that is not fixed");
    const size_t channels =
        static_cast<size_t>(s.input_shape("input")[static_cast<size_t>(qparams.axis)]);
    if (qparams.scale.size() != channels || qparams.zero_point.size() != channels)
      s.fail(fmt::format("has {} scales and {} zero points, want {}", qparams.scale.size(),
                         qparams.zero_point.size(), channels));
  } else if (node.find_input("scale") != nullptr) {
    qparams.scale = {static_cast<float>(numbers(s, "scale").at(0))};
    qparams.zero_point = {static_cast<int32_t>(numbers(s, "zero_point").at(0))};
  } else {
    qparams.scale = {static_cast<float>(node.float_or("scale", 1))};
    qparams.zero_point = {static_cast<int32_t>(node.int_or("zero_point", 0))};
  }
  for (float scale : qparams.scale)
    if (!(scale > 0) || std::isinf(scale))
      s.fail(fmt::format("has scale {}, want a positive number", scale));
  const IntegerRange range = integer_range(dtype);
  for (int32_t zero : qparams.zero_point)
    if (zero < range.min || zero > range.max)
      s.fail(fmt::format("has zero point {}, want one of {} .. {}, the values of {}", zero,
                         range.min, range.max, name_of(dtype)));
  return qparams;
}

// quant_min and quant_max if they are narrower than the dtype.
Attributes quant_range(const Node& node, DType dtype) {
  Attributes attributes;
  const IntegerRange range = integer_range(dtype);
  const int64_t low = node.int_or("quant_min", range.min),
                high = node.int_or("quant_max", range.max);
  if (low > range.min) attributes[attr::kQuantMin] = low;
  if (high < range.max) attributes[attr::kQuantMax] = high;
  return attributes;
}

// Scales and zero points of blocks of any shape.
struct BlockParameters {
  Tensor scale;              // f32; shape: blocks per dimension
  Tensor zero_point;         // f32, as `scale`; undefined: 0
  bool rounds_last = false;  // the zero point is added before rounding
};

Tensor block_numbers(Steps& s, const char* name, const std::vector<int64_t>& blocks) {
  const std::vector<double> values = numbers(s, name);
  if (static_cast<int64_t>(values.size()) != product(blocks))
    s.fail(fmt::format("has {} numbers in {}, want {}", values.size(), name, product(blocks)));
  for (double value : values)
    if (!std::isfinite(static_cast<float>(value)))
      s.fail(fmt::format("has {} in {}, want a finite float", value, name));
  return Tensor::from<float>(DType::kFloat32, blocks,
                             std::vector<float>(values.begin(), values.end()));
}

// Divides rows into groups of `group_size` elements. A row that is shorter is one group if it has
// one scale.
std::vector<int64_t> group_counts(Steps& s, const Node& node, const std::vector<int64_t>& shape) {
  const int64_t size = node.int_or("group_size", 0);
  if (shape.size() != 2) s.fail(fmt::format("has an input of {} dimensions, want 2", shape.size()));
  if (size > shape[1] && s.input_shape("scales").back() == 1) return {shape[0], 1};
  if (size <= 1 || shape[1] % size != 0)
    s.fail(fmt::format("has group_size {}, want a divisor of {}", size, shape[1]));
  return {shape[0], shape[1] / size};
}

BlockParameters block_parameters(Steps& s, const Node& node) {
  const std::vector<int64_t> shape = s.input_shape("input");
  const bool has_groups = node.find_argument("group_size") != nullptr;
  const Sizes counts = has_groups ? Sizes(group_counts(s, node, shape))
                                  : block_counts(s, node, s.sizes(s.input("input")));
  if (is_symbolic(counts)) s.fail("has a scale for each slice along a dimension that is not fixed");
  const std::vector<int64_t> blocks = evaluate(counts, {});
  BlockParameters parameters{
      block_numbers(s, has_groups ? "scales" : "scale", blocks), {}, has_groups};
  const char* zeros = has_groups ? "zero_points" : "zero_point";
  if (node.find_input(zeros) == nullptr) return parameters;
  const Tensor numbers = block_numbers(s, zeros, blocks);
  const float* first = numbers.data<float>();
  if (std::any_of(first, first + numbers.numel(), [](float zero) { return zero != 0; }))
    parameters.zero_point = numbers;
  return parameters;
}

// Converts block parameters to per-tensor or per-channel qparams; nullopt if the blocks are
// different, a scale is not positive, or a zero point is not an integer.
std::optional<TensorQParams> simple_qparams(const BlockParameters& parameters,
                                            const std::vector<int64_t>& shape) {
  TensorQParams qparams;
  const std::vector<int64_t>& blocks = parameters.scale.shape();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (blocks[d] == 1) continue;
    if (blocks[d] != shape[d] || qparams.axis >= 0) return std::nullopt;
    qparams.axis = static_cast<int>(d);
  }
  for (int64_t i = 0; i < parameters.scale.numel(); ++i) {
    const float zero =
        parameters.zero_point.defined() ? parameters.zero_point.data<float>()[i] : 0.0f;
    const float scale = parameters.scale.data<float>()[i];
    if (zero != std::nearbyint(zero) || std::abs(zero) > 65536 || !(scale > 0)) return std::nullopt;
    qparams.scale.push_back(scale);
    qparams.zero_point.push_back(static_cast<int32_t>(zero));
  }
  return qparams;
}

void refuse_blocks(Steps& s, const ProgramTensor& x, DType dtype,
                   const BlockParameters& parameters) {
  const bool is_constant = x.is_constant();
  const std::string what = is_constant ? fmt::format("of a constant to or from {}", name_of(dtype))
                                       : std::string("of a computed tensor");
  s.refuse(fmt::format("{} in {} blocks", what, fmt::join(parameters.scale.shape(), "x")));
}

bool is_in_blocks(const Node& node) {
  return node.find_argument("block_size") != nullptr || node.find_argument("group_size") != nullptr;
}

bool is_supported(DType dtype) { return is_integer(dtype) && size_of(dtype) <= 4; }

void emit_quantize(Steps& s, const Node& node, const TensorQParams& qparams, DType dtype) {
  const int x = s.input("input");
  ProgramOp& op = s.emit("quantize", {x}, quant_range(node, dtype));
  s.program().tensor(op.outputs[0]).qparams = qparams;
}

// Quantizes a constant at once, in any blocks. A computed tensor can only be quantized per tensor
// and per channel.
void import_block_quantize(Steps& s, const Node& node, DType dtype) {
  const BlockParameters parameters = block_parameters(s, node);
  const ProgramTensor& x = s.tensor(s.input("input"));
  const std::optional<TensorQParams> qparams = simple_qparams(parameters, x.shape);
  if (qparams && !parameters.rounds_last) return emit_quantize(s, node, *qparams, dtype);
  if (!x.is_constant() || x.dtype != DType::kFloat32 || size_of(dtype) > 2)
    return refuse_blocks(s, x, dtype, parameters);
  const IntegerRange range = integer_range(dtype);
  const RoundedRange rounded{node.int_or("quant_min", range.min),
                             node.int_or("quant_max", range.max), parameters.rounds_last};
  const Tensor values =
      quantize_blocks(constant_data(x), parameters.scale, parameters.zero_point, dtype, rounded);
  s.alias(node.outputs().front(), s.add_constant(node.name(), values));
}

void import_quantize(Steps& s, const Node& node) {
  if (const Node* origin = find_dynamic_origin(node))
    return import_dynamic_quantize(s, node, *origin);
  const Value* value = node.outputs().front();
  s.sizes_of(*value);
  const DType dtype = value->meta->dtype;
  if (!is_supported(dtype)) return s.refuse(fmt::format("to {}", name_of(dtype)));
  if (is_in_blocks(node)) return import_block_quantize(s, node, dtype);
  emit_quantize(s, node, qparams_of(s, node, dtype), dtype);
}

// The integer tensor with these parameters: the tensor itself if it has them or none yet, otherwise
// a second tensor on the same constant.
int with_qparams(Steps& s, int index, const TensorQParams& qparams) {
  ProgramTensor& tensor = s.program().tensor(index);
  if (!tensor.qparams) tensor.qparams = qparams;
  if (*tensor.qparams == qparams) return index;
  if (tensor.is_constant()) return s.add_constant(tensor.name, tensor.data, qparams);
  s.fail(
      fmt::format("reads %{} with another scale or zero point than it was "
                  "quantized with; quantize and dequantize must agree",
                  tensor.name));
}

// Makes a constant the node's result, cast to the recorded dtype.
void become_constant(Steps& s, const Node& node, StoredConstant stored) {
  const int constant = s.builder().add_tensor(constant_tensor(node.name(), std::move(stored)));
  Value* result = node.outputs().front();
  if (result->meta && result->meta->dtype != DType::kFloat32) {
    s.emit("cast", {constant});
  } else {
    s.alias(result, constant);
  }
}

void import_block_dequantize(Steps& s, const Node& node, int x) {
  const BlockParameters parameters = block_parameters(s, node);
  const ProgramTensor& values = s.tensor(x);
  const std::optional<TensorQParams> qparams = simple_qparams(parameters, values.shape);
  if (qparams) {
    s.emit("dequantize", {with_qparams(s, x, *qparams)});
  } else if (values.is_constant() && size_of(values.dtype) <= 2) {
    become_constant(s, node, {values.data, parameters.scale, parameters.zero_point});
  } else {
    refuse_blocks(s, values, values.dtype, parameters);
  }
}

// Whether zero points are in real units, as for embedding tables.
bool has_real_zero_points(Steps& s, const Node& node) {
  return node.find_argument("zero_points") != nullptr &&
         node.find_input("zero_points") != nullptr &&
         is_floating_point(s.tensor(s.input("zero_points")).dtype);
}

void import_dequantize(Steps& s, const Node& node) {
  if (find_dynamic_origin(node) != nullptr) return import_dynamic_dequantize(s, node);
  const int x = s.input("input");
  // a copy, because reading other operands may reallocate the tensors
  const ProgramTensor values = s.tensor(x);
  if (!is_supported(values.dtype)) return s.refuse(fmt::format("of {}", name_of(values.dtype)));
  if (is_in_blocks(node)) return import_block_dequantize(s, node, x);
  if (values.is_constant() && size_of(values.dtype) <= 2 && has_real_zero_points(s, node)) {
    std::vector<int64_t> blocks(values.shape.size(), 1);
    const size_t axis = static_cast<size_t>(positive_dim(node.int_or("axis", 0), blocks.size()));
    if (axis >= blocks.size())
      s.fail(fmt::format("has axis {}, want one of {} dimensions", node.int_or("axis", 0),
                         blocks.size()));
    blocks[axis] = values.shape[axis];
    return become_constant(
        s, node,
        {values.data, block_numbers(s, "scales", blocks), block_numbers(s, "zero_points", blocks)});
  }
  s.emit("dequantize", {with_qparams(s, x, qparams_of(s, node, values.dtype))});
}

// Per-token ops: a choose_qparams must compute the scales, because a Program holds no others.
void import_token(Steps& s, const Node& node) {
  const Node* origin = find_dynamic_origin(node);
  if (origin == nullptr) return s.refuse("with scales that no choose_qparams computes");
  if (node.is("quantized_decomposed.quantize_per_token"))
    return import_dynamic_quantize(s, node, *origin);
  import_dynamic_dequantize(s, node);
}

// float16 by torch's convert op, which fusion ignores.
void import_convert(Steps& s, const Node&) { s.emit("cast", {s.input("input")}); }

constexpr ImportRow kQuantizationRows[] = {
    {"quantized_decomposed.quantize_per_tensor", import_quantize},
    {"quantized_decomposed.dequantize_per_tensor", import_dequantize},
    {"quantized_decomposed.quantize_per_channel", import_quantize},
    {"quantized_decomposed.dequantize_per_channel", import_dequantize},
    {"quantized_decomposed.quantize_per_channel_group", import_quantize},
    {"quantized_decomposed.dequantize_per_channel_group", import_dequantize},
    {"quantized_decomposed.quantize_per_token", import_token},
    {"quantized_decomposed.dequantize_per_token", import_token},
    {"torchao.quantize_affine", import_quantize},
    {"torchao.dequantize_affine", import_dequantize},
    {"quantized_decomposed.choose_qparams", import_choose_qparams},
    {"quantized_decomposed.choose_qparams_symmetric", import_choose_qparams},
    {"quantized_decomposed.choose_qparams_per_token", import_choose_qparams},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric", import_choose_qparams},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl", import_choose_qparams},
    {"torchao.choose_qparams_affine", import_choose_qparams},
    {"quantized_decomposed.convert_element_type", import_convert},
};

}  // namespace

std::span<const ImportRow> quantization_import_rows() { return kQuantizationRows; }

}  // namespace octet
