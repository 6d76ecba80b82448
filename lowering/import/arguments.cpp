// Reads the arguments of a node (values, literals and sizes) as operands and attributes.
#include <cmath>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/shape.h"
#include "lowering/import/size.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

DType dtype_of_result(const Node& node) {
  const Value* result = node.outputs().empty() ? nullptr : node.outputs().front();
  return result != nullptr && result->meta ? result->meta->dtype : DType::kFloat32;
}

}  // namespace

bool is_given(const Node& node, std::string_view name) {
  const Argument* argument = node.find_argument(name);
  return argument != nullptr && !argument->is_none();
}

std::string text_argument(const Node& node, std::string_view name) {
  const Argument* argument = node.find_argument(name);
  const std::string* text = argument == nullptr ? nullptr : argument->find<std::string>();
  return text == nullptr ? "" : *text;
}

std::optional<int64_t> find_whole(const Node& node, std::string_view name) {
  const Argument* argument = node.find_argument(name);
  if (argument == nullptr) return std::nullopt;
  if (const int64_t* value = argument->find<int64_t>()) return *value;
  if (const SymIntLiteral* value = argument->find<SymIntLiteral>()) return value->value;
  if (const bool* value = argument->find<bool>()) return *value ? 1 : 0;
  return std::nullopt;
}

// Uses integers where possible: sums and products then wrap as torch's do, and nothing is rounded
// by a detour through reals.
Tensor literal_operand(const Node& node, std::string_view name) {
  const DType result = dtype_of_result(node);
  const std::optional<int64_t> exact = find_whole(node, name);
  const double real = exact ? static_cast<double>(*exact) : node.float_or(name, 0);
  const bool is_whole = exact || (real == std::trunc(real) && std::fabs(real) < 0x1p63);
  if (is_integer(result) && is_whole) {
    const int64_t whole = exact ? *exact : static_cast<int64_t>(real);
    return Tensor::from<int64_t>(DType::kInt64, {}, std::span(&whole, 1));
  }
  if (result == DType::kFloat64)
    return Tensor::from<double>(DType::kFloat64, {}, std::span(&real, 1));
  const auto single = static_cast<float>(real);
  return Tensor::from<float>(DType::kFloat32, {}, std::span(&single, 1));
}

Attribute literal_attribute(const Node& node, std::string_view name, double fallback) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const std::optional<int64_t> whole = find_whole(node, name);
  if (whole && (*whole > kExact || *whole < -kExact)) return *whole;
  return whole ? static_cast<double>(*whole) : node.float_or(name, fallback);
}

std::vector<int64_t> static_shape(const Value& value) {
  OCTET_ASSERT(value.meta, "static_shape wants a value with a meta");
  for (const Dim& dim : value.meta->sizes)
    if (dim.is_symbolic())
      throw Error(
          "lower", "%" + value.name(),
          fmt::format("has the symbolic size {}, want numbers here; export with this size fixed",
                      parse_size(dim.expr, value.name()).to_text()));
  return value.meta->shape();
}

std::vector<int64_t> repeated(std::vector<int64_t> values, size_t count) {
  if (values.size() == 1) values.resize(count, values.front());
  return values;
}

int64_t positive_dim(int64_t dim, size_t rank) { return wrap_dim(dim, rank); }

// ---- arguments of Steps

int Steps::operand(std::string_view name) {
  const Argument* argument = node_.find_argument(name);
  if (argument == nullptr || argument->is_none()) return -1;
  const auto integer = [&](int64_t value) {
    return add_constant(std::string(node_.name()) + "_" + std::string(name),
                        Tensor::from<int64_t>(DType::kInt64, {}, std::span(&value, 1)));
  };
  if (const int64_t* value = argument->find<int64_t>()) return integer(*value);
  if (const SymIntLiteral* value = argument->find<SymIntLiteral>()) return integer(value->value);
  if (const bool* value = argument->find<bool>()) return integer(*value ? 1 : 0);
  return input(name);
}

int Steps::operand(std::initializer_list<std::string_view> names) {
  for (std::string_view name : names)
    if (node_.find_argument(name) != nullptr) return operand(name);
  return -1;
}

int Steps::input(std::string_view name) {
  const Argument* argument = node_.find_argument(name);
  if (argument == nullptr || argument->is_none()) return -1;
  if (Value* value = argument->value_or_null()) {
    if (!is_number(value->kind())) return tensor_of(value);
    const Value* result = node_.outputs().empty() ? nullptr : node_.outputs().front();
    const DType wanted = result != nullptr && result->meta ? result->meta->dtype : DType::kFloat32;
    const int number = number_of(value);
    if (is_floating_point(wanted))
      return cast(number, size_of(wanted) < 4 ? DType::kFloat32 : wanted);
    return is_floating_point(dtype(number)) ? cast(number, DType::kFloat32) : number;
  }
  if (argument->find<OptionalTensor>() != nullptr) return -1;
  return add_constant(fmt::format("{}_{}", node_.name(), name), literal_operand(node_, name));
}

std::vector<int> Steps::tensors(std::string_view name) {
  std::vector<int> list;
  if (const Argument* argument = node_.find_argument(name))
    for_each_value(*argument, [&](Value* value) { list.push_back(tensor_of(value)); });
  return list;
}

const Tensor* Steps::find_fixed_constant(const Value* value) const {
  return importer_.is_state(value) ? nullptr : importer_.graph().find_constant(value);
}

SizeExpr Steps::size_argument(const Node& node, const char* name, int64_t fallback) const {
  const Argument* argument = node.find_argument(name);
  Value* const* value = argument == nullptr ? nullptr : argument->find<Value*>();
  if (value == nullptr || (*value)->kind() != ValueKind::kSymInt)
    return SizeExpr(node.int_or(name, fallback));
  if ((*value)->symbol.empty())
    fail(fmt::format("has {} %{} without a recorded expression", name, (*value)->name()));
  if (size_table().has_formula(**value)) return size_table().formula_of((*value)->symbol, **value);
  importer_.refusals().add_refusal(node, fmt::format("has the {} %{}", name, (*value)->name()),
                                   RefusalKind::kSize);
  return 0;
}

std::optional<int64_t> Steps::fixed_size(int x, size_t dim) {
  if (dim >= rank(x)) {
    refuse("of a tensor without this dimension");
    return std::nullopt;
  }
  const SizeExpr size = sizes(x)[dim];
  if (size.is_number()) return size.number();
  refuse("along a dimension whose size is not fixed");
  return std::nullopt;
}

}  // namespace octet
