#include "tools/onnx/dynamic.h"

#include <algorithm>

#include "lowering/import/dynamic.h"
#include "tools/onnx/quantized.h"

namespace octet {
namespace {

// ---- where the scales stand

enum class Granularity { kTensor, kRows, kOther };

Granularity granularity_of(OnnxSteps& s, DynamicForm::Blocks blocks) {
  if (blocks == DynamicForm::Blocks::kTensor) return Granularity::kTensor;
  if (blocks == DynamicForm::Blocks::kRows) return Granularity::kRows;
  const std::vector<Dim>& sizes = s.meta(s.self()).sizes;
  const Argument* argument = s.node.find_argument("block_size");
  if (argument == nullptr) return Granularity::kOther;
  // An open size can only be a block of its own size here.
  std::vector<int64_t> given = s.node.ints_or("block_size", {});
  if (const SymIntList* list = argument->find<SymIntList>()) {
    given.clear();
    for (size_t d = 0; d < list->items.size() && d < sizes.size(); ++d) {
      const int64_t* number = std::get_if<int64_t>(&list->items[d]);
      given.push_back(number == nullptr ? sizes[d].value : *number);
    }
  }
  if (given.size() != sizes.size() || given.empty()) return Granularity::kOther;
  bool is_tensor = true, is_rows = true;
  for (size_t d = 0; d < given.size(); ++d) {
    const bool is_whole = given[d] == -1 || given[d] == sizes[d].value;
    is_tensor &= is_whole;
    is_rows &= d + 1 == given.size() ? is_whole : given[d] == 1;
  }
  return is_rows ? Granularity::kRows : is_tensor ? Granularity::kTensor : Granularity::kOther;
}

// ---- scale and zero point

int64_t int_of(const Attributes& mapping, const char* key) {
  const auto found = mapping.find(key);
  return found == mapping.end() ? 0 : std::get<int64_t>(found->second);
}

// The mapping in terms of u8: int8 and its zero points are moved by 128.
struct Mapping {
  std::string name;
  double low, high, eps, zero_point;

  bool is_symmetric() const { return name.starts_with("symmetric"); }
  bool is_whole() const { return low == 0 && high == 255; }
};

Mapping mapping_of(const DynamicForm& form) {
  const double shift = form.dtype == DType::kInt8 ? 128 : 0;
  return {std::get<std::string>(form.mapping.at("mapping")),
          static_cast<double>(int_of(form.mapping, "quant_min")) + shift,
          static_cast<double>(int_of(form.mapping, "quant_max")) + shift,
          std::get<double>(form.mapping.at("eps")),
          static_cast<double>(int_of(form.mapping, "zero_point")) + shift};
}

struct Step {
  std::string scale, zero_point;  // f32, u8
};

// One of choose_step() (lowering/program/dynamic_range.h); low, high: the range, with 0 in it.
Step choose_step(OnnxSteps& s, const Mapping& m, double shift, const std::string& low,
                 const std::string& high) {
  const auto number = [&](double value) { return s.number(value, DType::kFloat32); };
  std::string ratio;
  if (m.name == "symmetric")
    ratio = s.div(s.op("Max", {s.op("Neg", {low}), high}), number((m.high - m.low) / 2));
  else if (m.name == "symmetric_unclipped")
    ratio = s.op("Max", {s.div(low, number(m.low - shift)), s.div(high, number(m.high - shift))});
  else
    ratio = s.div(s.sub(high, low), number(m.high - m.low));
  const std::string scale = s.op("Max", {ratio, number(m.eps)});
  if (m.is_symmetric())
    return {scale, s.op("Expand", {s.number(m.zero_point, DType::kUInt8), s.shape(scale)})};
  const std::string below = s.div(low, scale);
  std::string zero = s.sub(number(m.low), s.op("Round", {below}));
  if (m.name == "least_error") {
    const std::string above = s.div(high, scale);
    // (below + qmin) + (above + qmax), in the terms of the graph's integers
    const std::string error = s.add(s.add(below, above), number(m.low + m.high - 2 * shift));
    zero =
        s.op("Round", {s.op("Where", {s.op("Greater", {error, number(0)}),
                                      s.sub(number(m.low), below), s.sub(number(m.high), above)})});
  }
  zero = s.op("Clip", {zero, number(m.low), number(m.high)});
  return {scale, s.cast(zero, DType::kUInt8)};
}

OnnxDynamic quantized_rows(OnnxSteps& s, const Mapping& mapping, double shift, bool is_rows) {
  const std::string x = s.x();
  OnnxDynamic result{x, "", "", is_rows};
  const std::vector<int64_t> axes = is_rows ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  if (is_rows && s.rank(s.self()) != 2)
    result.integers = s.reshape(x, {-1, s.meta(s.self()).sizes.back().value});
  const std::string zero = s.number(0, DType::kFloat32);
  const std::string low = s.op("Min", {s.reduce("ReduceMin", result.integers, axes, false), zero});
  const std::string high = s.op("Max", {s.reduce("ReduceMax", result.integers, axes, false), zero});
  const Step step = choose_step(s, mapping, shift, low, high);
  result.scale = step.scale;
  result.zero_point = step.zero_point;
  OnnxAttributes attributes;
  if (is_rows) attributes.emplace_back("axis", int64_t{0});
  result.integers =
      s.op("QuantizeLinear", {result.integers, step.scale, step.zero_point}, attributes);
  // A scale of max |x| / 127 reaches no further than 127.
  const bool reaches = mapping.name == "symmetric" && mapping.low == 1 && mapping.high == 255;
  if (!mapping.is_whole() && !reaches)
    result.integers = s.op("Clip", {result.integers, s.number(mapping.low, DType::kUInt8),
                                    s.number(mapping.high, DType::kUInt8)});
  return result;
}

// The computed integers that a dequantize node reads; null when there are none.
const OnnxDynamic* find_dynamic(const OnnxSteps& s, const Node* dequantize) {
  if (dequantize == nullptr || find_dynamic_origin(*dequantize) == nullptr) return nullptr;
  const Value* integers = dequantize->find_input("input");
  const auto found = s.exporter.dynamic.find(integers == nullptr ? nullptr : integers->producer());
  return found == s.exporter.dynamic.end() ? nullptr : &found->second;
}

// The sums of the columns of an int8 matrix [K, N].
Tensor column_sums(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor sums = Tensor::zeros(DType::kInt32, {columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      sums.data<int32_t>()[j] += matrix.data<int8_t>()[i * columns + j];
  return sums;
}

bool is_plain_int8(const StoredWeight& weight) {
  const OnnxQParams& q = weight.qparams;
  return q.dtype == DType::kInt8 && !q.is_blocked() && weight.values.shape().size() == 2 &&
         (q.is_per_tensor() || q.axis == 0) &&
         std::all_of(q.zero_point.begin(), q.zero_point.end(), [](int64_t z) { return z == 0; });
}

void convert_choose_qparams(OnnxSteps& s) {
  for (const Value* value : s.node.outputs()) {
    for (const Node* user : value->users())
      if (find_dynamic_origin(*user) != &s.node)
        return s.refuse("whose scale is used by something else than quantize and dequantize");
    s.give(value, value->name());
  }
}

}  // namespace

void convert_dynamic_quantize(OnnxSteps& s) {
  const Node& origin = *find_dynamic_origin(s.node);
  const DynamicForm form = dynamic_form(origin);
  if (form.dtype != DType::kInt8 && form.dtype != DType::kUInt8)
    return s.refuse("to other integers than those of 8 bits");
  if (origin.find_input("input") != s.node.find_input("input"))
    return s.refuse("with the range of another tensor");
  for (const Node* user : s.result()->users())
    if (find_dynamic_origin(*user) != &origin)
      return s.refuse("whose integers are used by something else than its dequantize");
  const Granularity granularity = granularity_of(s, form.blocks);
  if (granularity == Granularity::kOther)
    return s.refuse("in other blocks than rows, or the whole tensor");
  const bool is_rows = granularity == Granularity::kRows;
  if (is_rows && (s.rank(s.self()) == 0 || s.meta(s.self()).sizes.back().is_symbolic()))
    return s.refuse("in rows whose length is not fixed");
  if (s.dtype(s.self()) != DType::kFloat32) return s.refuse("of another dtype than float32");
  const Mapping mapping = mapping_of(form);
  OnnxDynamic& made = s.exporter.dynamic[&s.node];
  if (!is_rows && mapping.name == "asymmetric" && mapping.is_whole()) {
    const Names results = s.ops("DynamicQuantizeLinear", 3, {s.x()});
    made = {results[0], results[1], results[2], false};
  } else {
    made = quantized_rows(s, mapping, form.dtype == DType::kInt8 ? 128 : 0, is_rows);
  }
  s.exporter.give(s.result(), made.integers);
  made.integers = s.exporter.name_of(s.result());
}

void convert_dynamic_dequantize(OnnxSteps& s) {
  const OnnxDynamic* found = find_dynamic(s, &s.node);
  if (found == nullptr) return s.refuse("of integers that no quantize of its scale gives");
  OnnxAttributes attributes;
  if (found->is_rows) attributes.emplace_back("axis", int64_t{0});
  const std::string y = s.op("DequantizeLinear", {found->integers, found->scale, found->zero_point},
                             std::move(attributes));
  const bool is_flat = found->is_rows && s.rank(s.result()) != 2;
  s.give(is_flat ? s.reshaped(y, nullptr, s.result()) : y);
}

bool give_integer_linear(OnnxSteps& s, const Value* x, const Value* w) {
  const OnnxDynamic* left = find_dynamic(s, x->producer());
  const std::optional<StoredWeight> right = find_stored_weight(w);
  if (left == nullptr || !right || !is_plain_int8(*right)) return false;
  const StoredWeight weight = transposed(*right);
  const Value* integers = w->producer()->find_input("input");
  const std::string matrix =
      s.exporter.add_initializer(s.exporter.graph().find_input(integers)->fqn, weight.values);
  const std::string columns = s.constant(
      "scale", Tensor::from<float>(DType::kFloat32, weight.qparams.shape, weight.qparams.scale));
  std::string sums, scale;
  if (left->is_rows) {
    const std::string zero = s.unsqueeze(s.cast(left->zero_point, DType::kInt32), {1});
    sums = s.op("MatMulInteger", {left->integers, matrix});
    sums = s.sub(sums, s.mul(zero, s.constant("column_sums", column_sums(weight.values))));
    scale = s.mul(s.unsqueeze(left->scale, {1}), columns);
  } else {
    sums = s.op("MatMulInteger", {left->integers, matrix, left->zero_point});
    scale = s.mul(left->scale, columns);
  }
  std::string y = s.mul(s.cast(sums, DType::kFloat32), scale);
  if (s.has("bias")) y = s.add(y, s.input("bias"));
  const bool is_flat = left->is_rows && s.rank(s.result()) != 2;
  s.give(is_flat ? s.reshaped(y, nullptr, s.result()) : y);
  return true;
}

namespace {

constexpr OnnxRow kDynamicRows[] = {
    {"quantized_decomposed.choose_qparams", convert_choose_qparams},
    {"quantized_decomposed.choose_qparams_symmetric", convert_choose_qparams},
    {"quantized_decomposed.choose_qparams_per_token", convert_choose_qparams},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric", convert_choose_qparams},
    {"quantized_decomposed._choose_qparams_per_token_asymmetric_impl", convert_choose_qparams},
    {"torchao.choose_qparams_affine", convert_choose_qparams},
    {"quantized_decomposed.quantize_per_token", convert_dynamic_quantize},
    {"quantized_decomposed.dequantize_per_token", convert_dynamic_dequantize},
};

}  // namespace

std::span<const OnnxRow> dynamic_onnx_rows() { return kDynamicRows; }

}  // namespace octet
