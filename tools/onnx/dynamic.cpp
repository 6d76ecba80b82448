// Writes dynamic quantization, and linear layers of dynamically quantized input.
#include <algorithm>

#include "core/base/shape.h"
#include "lowering/program/stored_constant.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

// ---- scale and zero point

// The range of fake_quantize_dynamic in terms of u8; int8 is shifted by 128.
struct Mapping {
  std::string name;
  double shift, low, high, eps, zero_point;

  bool is_symmetric() const { return name.starts_with("symmetric"); }
  bool is_whole() const { return low == 0 && high == 255; }
};

Mapping mapping_of(const ProgramOp& op) {
  const int64_t low = op.get(attr::kQuantMin, 0), high = op.get(attr::kQuantMax, 255);
  const int64_t shift = low < 0 ? 128 : 0;
  return {op.get(attr::kMapping),
          static_cast<double>(shift),
          static_cast<double>(low + shift),
          static_cast<double>(high + shift),
          op.get(attr::kEps, 0),
          static_cast<double>(op.get(attr::kZeroPoint) + shift)};
}

struct Step {
  std::string scale, zero_point;  // f32, u8
};

// Writes choose_step() of lowering/program/dynamic_range.h. low, high: the range, which includes 0.
Step choose_step(OnnxSteps& s, const Mapping& m, const std::string& low, const std::string& high) {
  const auto number = [&](double value) { return s.number(value, DType::kFloat32); };
  std::string ratio;
  if (m.name == "symmetric")
    ratio = s.div(s.op("Max", {s.op("Neg", {low}), high}), number((m.high - m.low) / 2));
  else if (m.name == "symmetric_unclipped")
    ratio =
        s.op("Max", {s.div(low, number(m.low - m.shift)), s.div(high, number(m.high - m.shift))});
  else
    ratio = s.div(s.sub(high, low), number(m.high - m.low));
  const std::string scale = s.op("Max", {ratio, number(m.eps)});
  if (m.is_symmetric())
    return {scale, s.op("Expand", {s.number(m.zero_point, DType::kUInt8), s.shape(scale)})};
  const std::string below = s.div(low, scale);
  std::string zero = s.sub(number(m.low), s.op("Round", {below}));
  if (m.name == "least_error") {
    const std::string above = s.div(high, scale);
    // (below + qmin) + (above + qmax), in terms of the program's integers
    const std::string error = s.add(s.add(below, above), number(m.low + m.high - 2 * m.shift));
    zero =
        s.op("Round", {s.op("Where", {s.op("Greater", {error, number(0)}),
                                      s.sub(number(m.low), below), s.sub(number(m.high), above)})});
  }
  zero = s.op("Clip", {zero, number(m.low), number(m.high)});
  return {scale, s.cast(zero, DType::kUInt8)};
}

// row: the number of elements with one scale; nullopt: one scale for all.
OnnxDynamic quantized_rows(OnnxSteps& s, const Mapping& mapping, std::optional<int64_t> row) {
  OnnxDynamic result{s.x(), "", "", row.has_value()};
  const std::vector<int64_t> axes = row ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  if (row && (s.rank() != 2 || s.in().shape[1] != *row))
    result.integers = s.reshape(result.integers, {-1, *row});
  const std::string zero = s.number(0, DType::kFloat32);
  const std::string low = s.op("Min", {s.reduce("ReduceMin", result.integers, axes, false), zero});
  const std::string high = s.op("Max", {s.reduce("ReduceMax", result.integers, axes, false), zero});
  const Step step = choose_step(s, mapping, low, high);
  result.scale = step.scale;
  result.zero_point = step.zero_point;
  OnnxAttributes attributes;
  if (row) attributes.emplace_back("axis", int64_t{0});
  result.integers =
      s.op("QuantizeLinear", {result.integers, step.scale, step.zero_point}, attributes);
  // With a scale of max |x| / 127 no value exceeds 127.
  const bool reaches = mapping.name == "symmetric" && mapping.low == 1 && mapping.high == 255;
  if (!mapping.is_whole() && !reaches)
    result.integers = s.op("Clip", {result.integers, s.number(mapping.low, DType::kUInt8),
                                    s.number(mapping.high, DType::kUInt8)});
  return result;
}

enum class Granularity { kTensor, kRows, kOther };

// kRows: each part of the last dimension has a scale.
Granularity granularity_of(const OnnxSteps& s) {
  if (!s.source.attributes.contains("blocks")) return Granularity::kTensor;
  const auto formulas = s.source.sizes.find("blocks");
  const std::vector<int64_t> numbers = s.source.get(attr::kBlocks);
  const std::vector<SizeExpr> blocks = formulas == s.source.sizes.end()
                                           ? std::vector<SizeExpr>(numbers.begin(), numbers.end())
                                           : formulas->second;
  const std::vector<SizeExpr> sizes = sizes_of(s.in());
  if (!blocks.empty() && blocks.back().is_number() && sizes.back().is_number() &&
      std::equal(blocks.begin(), blocks.end() - 1, sizes.begin()))
    return Granularity::kRows;
  const bool is_one =
      std::ranges::all_of(blocks, [](const SizeExpr& count) { return count == SizeExpr(1); });
  return is_one ? Granularity::kTensor : Granularity::kOther;
}

std::string flat_again(OnnxSteps& s, const std::string& y, bool is_flat) {
  ProgramTensor rows = s.out();
  rows.sizes = {SizeExpr(-1)};  // which the result does not keep
  return is_flat ? s.reshaped(y, rows, s.out()) : y;
}

void write_fake_quantize(OnnxSteps& s) {
  const Mapping mapping = mapping_of(s.source);
  if (mapping.low < 0 || mapping.high > 255)
    return s.refuse("to other integers than those of 8 bits");
  const Granularity granularity = granularity_of(s);
  if (granularity == Granularity::kOther)
    return s.refuse("in other blocks than rows, or the whole tensor");
  std::optional<int64_t> row;
  if (granularity == Granularity::kRows)
    row = s.in().shape.back() / std::max<int64_t>(s.source.get(attr::kBlocks).back(), 1);
  OnnxDynamic made;
  if (!row && mapping.name == "asymmetric" && mapping.is_whole()) {
    const Names results = s.ops("DynamicQuantizeLinear", 3, {s.x()});
    made = {results[0], results[1], results[2], false};
  } else {
    made = quantized_rows(s, mapping, row);
  }
  OnnxAttributes attributes;
  if (row) attributes.emplace_back("axis", int64_t{0});
  const std::string y =
      s.op("DequantizeLinear", {made.integers, made.scale, made.zero_point}, std::move(attributes));
  const bool is_flat = row && (s.rank() != 2 || s.in().shape[1] != *row);
  s.give(flat_again(s, y, is_flat));
  if (!row || *row == s.in().shape.back()) s.writer.scope().dynamic[s.source.outputs[0]] = made;
}

// ---- linear layers

// Sums the columns of an int8 matrix [K, N].
Tensor column_sums(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor sums = Tensor::zeros(DType::kInt32, {columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      sums.data<int32_t>()[j] += matrix.data<int8_t>()[i * columns + j];
  return sums;
}

bool is_plain_int8(const StoredConstant& weight) {
  const std::optional<OnnxQParams> q = find_qparams(weight);
  return q && q->dtype == DType::kInt8 && !q->is_blocked() && weight.values.shape().size() == 2 &&
         (q->is_per_tensor() || q->axis == 0) &&
         std::ranges::all_of(q->zero_point, [](int64_t z) { return z == 0; });
}

constexpr OnnxRow kDynamicRows[] = {{"fake_quantize_dynamic", write_fake_quantize}};

}  // namespace

std::span<const OnnxRow> dynamic_onnx_rows() { return kDynamicRows; }

bool give_integer_linear(OnnxSteps& s) {
  const auto found = s.writer.scope().dynamic.find(s.source.inputs[0]);
  const std::optional<StoredConstant> weight = find_stored_weight(s, 1);
  if (found == s.writer.scope().dynamic.end() || !weight || !is_plain_int8(*weight)) return false;
  const OnnxDynamic& left = found->second;
  const StoredConstant columns = permuted(*weight, {1, 0});
  const OnnxQParams qparams = *find_qparams(columns);
  const std::string matrix = s.writer.add_initializer(weight_name(s, 1), columns.values);
  const std::string scales = s.floats("scale", qparams.shape, qparams.scale);
  std::string sums, scale;
  if (left.is_rows) {
    const std::string zero = s.unsqueeze(s.cast(left.zero_point, DType::kInt32), {1});
    sums = s.op("MatMulInteger", {left.integers, matrix});
    sums = s.sub(sums, s.mul(zero, s.constant("column_sums", column_sums(columns.values))));
    scale = s.mul(s.unsqueeze(left.scale, {1}), scales);
  } else {
    sums = s.op("MatMulInteger", {left.integers, matrix, left.zero_point});
    scale = s.mul(left.scale, scales);
  }
  std::string y = s.mul(s.cast(sums, DType::kFloat32), scale);
  if (s.has(2)) y = s.add(y, s.x(2));
  s.give(flat_again(s, y, left.is_rows && s.out().shape.size() != 2));
  return true;
}

}  // namespace octet
