// Numbers that stand among a node's arguments, as operands and attributes.
#include <cmath>

#include "lowering/import/importer.h"

namespace octet {
namespace {

DType dtype_of_result(const Node& node) {
  const Value* result = node.outputs().empty() ? nullptr : node.outputs().front();
  return result != nullptr && result->meta ? result->meta->dtype : DType::kFloat32;
}

}  // namespace

std::optional<int64_t> find_whole(const Node& node, std::string_view name) {
  const Argument* argument = node.find_argument(name);
  if (argument == nullptr) return std::nullopt;
  if (const int64_t* value = argument->find<int64_t>()) return *value;
  if (const SymIntLiteral* value = argument->find<SymIntLiteral>()) return value->value;
  if (const bool* value = argument->find<bool>()) return *value ? 1 : 0;
  return std::nullopt;
}

// In integers, sums and products wrap as torch's do, and none is rounded on a way through reals.
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

}  // namespace octet
