// Writes quantize and dequantize with constant scales as QuantizeLinear and DequantizeLinear, which
// runtimes fuse into other operators.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

OnnxQParams qparams_of(const ProgramTensor& tensor) {
  const TensorQParams& given = *tensor.qparams;
  OnnxQParams qparams;
  qparams.scale = given.scale;
  qparams.zero_point.assign(given.zero_point.begin(), given.zero_point.end());
  qparams.dtype = tensor.dtype;
  if (given.is_per_tensor()) return qparams;
  qparams.axis = given.axis;
  qparams.shape = {static_cast<int64_t>(given.scale.size())};
  return qparams;
}

// Sets the form of scales for blocks: per tensor, along an axis, or blocked along one axis. Returns
// false if ONNX has no such form.
bool set_form(OnnxQParams& qparams, const std::vector<int64_t>& counts,
              const std::vector<int64_t>& shape) {
  std::vector<size_t> cut, blocked;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (counts[d] > 1) cut.push_back(d);
    if (counts[d] != shape[d]) blocked.push_back(d);
  }
  if (cut.empty()) return true;
  if (cut.size() == 1 && counts[cut[0]] == shape[cut[0]]) {
    qparams.axis = static_cast<int64_t>(cut[0]);
    qparams.shape = {counts[cut[0]]};
    return true;
  }
  if (blocked.size() != 1) return false;
  qparams.axis = static_cast<int64_t>(blocked[0]);
  qparams.shape = counts;
  qparams.block = shape[blocked[0]] / counts[blocked[0]];
  return true;
}

template <typename T>
Tensor integers(const std::vector<int64_t>& values, DType dtype,
                const std::vector<int64_t>& shape) {
  return Tensor::from<T>(dtype, shape, std::vector<T>(values.begin(), values.end()));
}

Tensor zero_points(const OnnxQParams& qparams) {
  const std::vector<int64_t>& values = qparams.zero_point;
  switch (qparams.dtype) {
    case DType::kUInt8: return integers<uint8_t>(values, qparams.dtype, qparams.shape);
    case DType::kInt16: return integers<int16_t>(values, qparams.dtype, qparams.shape);
    case DType::kUInt16: return integers<uint16_t>(values, qparams.dtype, qparams.shape);
    default: return integers<int8_t>(values, DType::kInt8, qparams.shape);
  }
}

std::string zero_point_constant(OnnxSteps& s, const OnnxQParams& qparams) {
  if (qparams.dtype == DType::kInt32) return "";  // its zero point is 0
  if (qparams.is_per_tensor())
    return s.number(static_cast<double>(qparams.zero_point[0]), qparams.dtype);
  return s.constant("zero_point", zero_points(qparams));
}

OnnxAttributes attributes_of(const OnnxQParams& qparams) {
  OnnxAttributes attributes;
  if (!qparams.is_per_tensor()) attributes.emplace_back("axis", qparams.axis);
  if (qparams.is_blocked()) attributes.emplace_back("block_size", qparams.block);
  return attributes;
}

// Nodes share scales of whole tensors.
std::string scale_constant(OnnxSteps& s, const OnnxQParams& qparams) {
  if (qparams.is_per_tensor())
    return s.number(static_cast<double>(qparams.scale[0]), DType::kFloat32);
  return s.floats("scale", qparams.shape, qparams.scale);
}

// Whether the opset has these integers and blocks; refuses the op otherwise.
bool has_form(OnnxSteps& s, const OnnxQParams& qparams, bool is_quantize) {
  if (qparams.is_blocked() && !s.need(21, "scales of blocks")) return false;
  const size_t size = size_of(qparams.dtype);
  if (size == 2 && !s.need(21, fmt::format("integers of {}", name_of(qparams.dtype)))) return false;
  const bool is_int32 = qparams.dtype == DType::kInt32;
  const auto is_zero = [](int64_t zero) { return zero == 0; };
  if (is_int32 && !std::ranges::all_of(qparams.zero_point, is_zero))
    return s.refuse("of int32 with a zero point"), false;
  if (size <= 2 || (is_int32 && !is_quantize)) return true;
  s.refuse(fmt::format("to {}", name_of(qparams.dtype)));
  return false;
}

// Whether an int8 tensor can be written as u8 with zero points shifted by 128, which gives the same
// reals. That is so if a quantize makes it and only dequantizes read it. ONNX Runtime's products on
// x86 need u8, and its own conversion skips tensors with several dequantizes.
bool is_moved(const OnnxSteps& s, int index) {
  const auto at = static_cast<size_t>(index);
  const OnnxScope& scope = s.writer.scope();
  const ProgramOp* producer = scope.producers[at];
  return producer != nullptr && producer->is("quantize") && !scope.is_result[at] &&
         scope.program.tensor(index).dtype == DType::kInt8 &&
         std::ranges::all_of(scope.users[at],
                             [](const ProgramOp* user) { return user->is("dequantize"); });
}

// The shift of zero points and limits: 128 for int8 that is written as u8.
int64_t move(const OnnxSteps& s, int index, OnnxQParams& qparams) {
  if (!is_moved(s, index)) return 0;
  qparams.dtype = DType::kUInt8;
  for (int64_t& zero : qparams.zero_point) zero += 128;
  return 128;
}

// Skips a clamp whose limits are no narrower than the integers, because runtimes fuse only a
// product directly before a quantize.
std::string without_limits(OnnxSteps& s, const OnnxQParams& qparams, const IntegerRange& range) {
  const ProgramOp* clamp = s.producer(0, "clamp");
  if (clamp == nullptr || !qparams.is_per_tensor() || !clamp->find(attr::kMax) ||
      s.program().input(*clamp, 0).dtype != DType::kFloat32)
    return s.x(0, DType::kFloat32);
  const double scale = static_cast<double>(qparams.scale[0]),
               zero = static_cast<double>(qparams.zero_point[0]);
  const double low = clamp->get(attr::kMin, -std::numeric_limits<double>::infinity()),
               high = clamp->get(attr::kMax, 0);
  const bool is_idle = std::nearbyint(low / scale) + zero <= static_cast<double>(range.min) &&
                       std::nearbyint(high / scale) + zero >= static_cast<double>(range.max);
  return is_idle ? s.writer.name_of(clamp->inputs[0]) : s.x(0);
}

void write_quantize(OnnxSteps& s) {
  OnnxQParams qparams = qparams_of(s.out());
  if (!has_form(s, qparams, true)) return;
  const int64_t moved = move(s, s.source.outputs[0], qparams);
  const IntegerRange whole = integer_range(qparams.dtype);
  const IntegerRange range = {s.source.get(attr::kQuantMin, whole.min - moved) + moved,
                              s.source.get(attr::kQuantMax, whole.max - moved) + moved};
  const std::string x = without_limits(s, qparams, range), scale = scale_constant(s, qparams);
  std::string y =
      s.op("QuantizeLinear", {x, scale, zero_point_constant(s, qparams)}, attributes_of(qparams));
  if (range.min > whole.min || range.max < whole.max)
    y = s.op("Clip", {y, s.number(static_cast<double>(range.min), qparams.dtype),
                      s.number(static_cast<double>(range.max), qparams.dtype)});
  s.give(y);
}

void write_dequantize(OnnxSteps& s) {
  OnnxQParams qparams = qparams_of(s.in());
  if (!has_form(s, qparams, false)) return;
  move(s, s.source.inputs[0], qparams);
  const std::string y = dequantized(s, s.x(), qparams);
  s.give(s.dtype() == DType::kFloat32 ? y : s.cast(y, s.dtype()));
}

constexpr OnnxRow kQuantizationRows[] = {
    {"quantize", write_quantize},
    {"dequantize", write_dequantize},
};

}  // namespace

std::span<const OnnxRow> quantization_onnx_rows() { return kQuantizationRows; }

std::optional<OnnxQParams> find_qparams(const StoredConstant& stored) {
  if (!stored.scale.defined()) return std::nullopt;
  OnnxQParams qparams;
  qparams.dtype = stored.values.dtype();
  const IntegerRange range = integer_range(qparams.dtype);
  const Tensor scales = stored.scales(), zero_points = stored.zero_points();
  for (int64_t i = 0; i < scales.numel(); ++i) {
    const float zero = zero_points.defined() ? zero_points.data<float>()[i] : 0;
    if (zero != std::nearbyint(zero) || zero < static_cast<float>(range.min) ||
        zero > static_cast<float>(range.max))
      return std::nullopt;
    qparams.scale.push_back(scales.data<float>()[i]);
    qparams.zero_point.push_back(static_cast<int64_t>(zero));
  }
  const bool has_shape = set_form(qparams, stored.scale.shape(), stored.values.shape());
  return has_shape ? std::optional(qparams) : std::nullopt;
}

std::optional<StoredConstant> find_stored_weight(const OnnxSteps& s, size_t input) {
  if (s.has(input) && s.in(input).stored) {
    const StoredConstant& stored = *s.in(input).stored;
    return find_qparams(stored) ? std::optional(stored) : std::nullopt;
  }
  const ProgramOp* dequantize = s.producer(input, "dequantize");
  if (dequantize == nullptr) return std::nullopt;
  const ProgramTensor& integers = s.program().input(*dequantize, 0);
  if (!integers.is_constant() || size_of(integers.dtype) > 2) return std::nullopt;
  return stored_constant(integers.data.contiguous(), *integers.qparams);
}

std::string weight_name(const OnnxSteps& s, size_t input) {
  const ProgramOp* dequantize = s.producer(input, "dequantize");
  const ProgramTensor& tensor =
      dequantize == nullptr ? s.in(input) : s.program().input(*dequantize, 0);
  return s.writer.constant_name(tensor.name);
}

std::optional<OnnxQParams> find_activation_qparams(const OnnxSteps& s, size_t input) {
  const ProgramOp* dequantize = s.producer(input, "dequantize");
  if (dequantize == nullptr) return std::nullopt;
  const ProgramTensor& integers = s.program().input(*dequantize, 0);
  return integers.qparams->is_per_tensor() ? std::optional(qparams_of(integers)) : std::nullopt;
}

std::string dequantized(OnnxSteps& s, const std::string& name, const OnnxQParams& qparams) {
  const std::string scale = scale_constant(s, qparams);
  return s.op("DequantizeLinear", {name, scale, zero_point_constant(s, qparams)},
              attributes_of(qparams));
}

std::string dequantized(OnnxSteps& s, const std::string& name, const StoredConstant& stored) {
  const OnnxQParams qparams = *find_qparams(stored);
  const Tensor values = stored.integers().contiguous();
  if (!has_form(s, qparams, false)) return name;
  const int64_t low = qparams.dtype == DType::kInt8 ? -8 : 0;
  const bool has_small_zeros = std::ranges::all_of(
      qparams.zero_point, [&](int64_t zero) { return zero >= low && zero < low + 16; });
  if (!qparams.is_blocked() || stored.bits() > 4 || !has_small_zeros)
    return dequantized(s, s.writer.add_initializer(name, values), qparams);
  const OnnxType type = qparams.dtype == DType::kInt8 ? OnnxType::kInt4 : OnnxType::kUInt4;
  const std::string integers =
      s.writer.add_initializer(name, type, values.shape(), pack_bits(values, 4));
  const std::string scale = scale_constant(s, qparams);
  const std::string zeros = s.writer.add_initializer(
      s.source.name + "_zero_point", type, qparams.shape, pack_bits(zero_points(qparams), 4));
  return s.op("DequantizeLinear", {integers, scale, zeros}, attributes_of(qparams));
}

std::optional<std::string> stored_name(OnnxSteps& s, const ProgramTensor& constant) {
  const std::string name = s.writer.constant_name(constant.name);
  const StoredConstant& stored = *constant.stored;
  if (!stored.scale.defined())
    return s.cast(s.writer.add_initializer(name, stored.integers().contiguous()), DType::kFloat32);
  if (!find_qparams(stored)) return std::nullopt;
  return dequantized(s, name, stored);
}

}  // namespace octet
