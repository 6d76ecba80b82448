// Emits ATen ops for the integer reference representation, with the dtypes and sizes of their
// results.
#include "annotate/reference/rules.h"

#include <algorithm>

#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet {
namespace {

// Arithmetic on two of these gives the later one.
constexpr std::array<DType, 7> kPromotion = {DType::kUInt8,  DType::kInt8,  DType::kInt16,
                                             DType::kInt32,  DType::kInt64, DType::kFloat32,
                                             DType::kFloat64};

DType promoted(DType left, DType right) {
  const auto rank = [](DType dtype) { return std::ranges::find(kPromotion, dtype); };
  return rank(left) < rank(right) ? right : left;
}

std::string base_name(const std::string& target) {
  const size_t first = target.find('.');
  return target.substr(first + 1, target.find('.', first + 1) - first - 1);
}

// The type of an elementwise result: sizes broadcast, dtype promoted. Strides are those of the
// operand that has the result's sizes.
std::optional<TensorMeta> broadcast(const std::optional<TensorMeta>& left,
                                    const std::optional<TensorMeta>& right) {
  if (!left || !right) return std::nullopt;
  const DType dtype = promoted(left->dtype, right->dtype);
  const TensorMeta& longer = left->sizes.size() >= right->sizes.size() ? *left : *right;
  const TensorMeta& shorter = &longer == &*left ? *right : *left;
  std::vector<Dim> sizes = longer.sizes;
  const size_t offset = longer.sizes.size() - shorter.sizes.size();
  for (size_t i = 0; i < shorter.sizes.size(); ++i)
    if (sizes[offset + i] == Dim{1, ""}) sizes[offset + i] = shorter.sizes[i];
  for (const TensorMeta* operand : {&longer, &shorter})
    if (operand->sizes == sizes) return with_dtype(*operand, dtype);
  TensorMeta result = longer;
  result.sizes = sizes;
  result.strides = make_meta(dtype, result.shape()).strides;
  return with_dtype(std::move(result), dtype);
}

}  // namespace

Value* Emitter::call(const std::string& target, std::vector<NamedArgument> arguments,
                     std::optional<TensorMeta> meta) {
  Node* node =
      graph_.insert(target, std::move(arguments), base_name(target), std::move(meta), &before_);
  port_metadata(*node, source_.metadata);
  return node->output();
}

Value* Emitter::call_int32(const std::string& op, std::vector<Argument> operands,
                           std::optional<TensorMeta> meta) {
  std::vector<NamedArgument> arguments = {{"", OperatorRef{"torch.ops." + op}},
                                          {"", DType::kInt32}};
  for (Argument& operand : operands) arguments.push_back({"", std::move(operand)});
  Value* result = call("higher_order.out_dtype", std::move(arguments),
                       with_dtype(std::move(meta), DType::kInt32));
  result->producer()->is_hop_single_tensor_return = true;
  return result;
}

Value* Emitter::cast(Value* value, DType dtype) {
  return call("aten.to.dtype", {{"self", value}, {"dtype", dtype}}, with_dtype(value->meta, dtype));
}

Value* Emitter::clamp(Value* value, int64_t min, int64_t max) {
  return call("aten.clamp.default", {{"self", value}, {"min", min}, {"max", max}}, value->meta);
}

Value* Emitter::round(Value* value) {
  return call("aten.round.default", {{"self", value}}, value->meta);
}

Value* Emitter::unsqueeze_last(Value* value) {
  std::optional<TensorMeta> meta = value->meta;
  if (meta) meta->sizes.push_back({1, ""});
  if (meta) meta->strides.push_back({1, ""});
  return call("aten.unsqueeze.default", {{"self", value}, {"dim", int64_t{-1}}}, std::move(meta));
}

Value* Emitter::transpose(Value* value, int64_t first, int64_t second) {
  std::optional<TensorMeta> meta = value->meta;
  if (meta) {
    const auto rank = static_cast<int64_t>(meta->sizes.size());
    const auto a = static_cast<size_t>(wrap_dim(first, rank));
    const auto b = static_cast<size_t>(wrap_dim(second, rank));
    std::swap(meta->sizes.at(a), meta->sizes.at(b));
    std::swap(meta->strides.at(a), meta->strides.at(b));
  }
  return call("aten.transpose.int", {{"self", value}, {"dim0", first}, {"dim1", second}},
              std::move(meta));
}

Value* Emitter::binary(const std::string& op, Argument left, Argument right) {
  const Value* a = left.value_or_null();
  const Value* b = right.value_or_null();
  OCTET_ASSERT(a != nullptr || b != nullptr, "arithmetic on two numbers needs no op");
  std::optional<TensorMeta> meta = a == nullptr   ? b->meta
                                   : b == nullptr ? a->meta
                                                  : broadcast(a->meta, b->meta);
  const bool has_float =
      left.find<double>() != nullptr || right.find<double>() != nullptr || op == "div";
  if (meta && has_float && !is_floating_point(meta->dtype)) meta->dtype = DType::kFloat32;
  return call("aten." + op + ".Tensor", {{"self", std::move(left)}, {"other", std::move(right)}},
              std::move(meta));
}

Argument Emitter::scale(const std::string& op, const Argument& left, const Argument& right) {
  const double* a = left.find<double>();
  const double* b = right.find<double>();
  if (a == nullptr || b == nullptr) return binary(op, left, right);
  const auto x = static_cast<float>(*a);
  const auto y = static_cast<float>(*b);
  return static_cast<double>(op == "div" ? x / y : x * y);
}

}  // namespace octet
