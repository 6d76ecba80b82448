#include "core/passes/scalars_to_constants.h"

#include <optional>

#include <fmt/format.h>

namespace octet {
namespace {

std::optional<float> find_number(const Argument& argument) {
  if (const auto* number = argument.find<int64_t>()) return static_cast<float>(*number);
  if (const auto* number = argument.find<double>()) return static_cast<float>(*number);
  if (const auto* flag = argument.find<bool>()) return *flag ? 1.0F : 0.0F;
  return std::nullopt;
}

bool is_known_not_float(const Node& node) {
  const Value* result = node.output_or_null();
  return result != nullptr && result->meta && !is_floating_point(result->meta->dtype);
}

// `from`: numbers below it are taken.
std::string free_fqn(const Graph& graph, int& from) {
  for (;; ++from) {
    const std::string fqn = fmt::format("_tensor_constant_{}", from);
    if (!graph.constants.contains(fqn)) return fqn;
  }
}

}  // namespace

int scalars_to_constants(Graph& graph, ScalarOps ops) {
  int changes = 0;
  int next = 0;
  for (Node* node : graph.nodes()) {
    if (node->target() != "aten.add.Tensor" && node->target() != "aten.mul.Tensor") continue;
    if (ops == ScalarOps::kFloatOnly && is_known_not_float(*node)) continue;
    for (const std::string_view name : {"self", "other"}) {
      const Argument* argument = node->find_argument(name);
      const std::optional<float> number =
          argument == nullptr ? std::nullopt : find_number(*argument);
      if (!number) continue;
      Tensor tensor = Tensor::zeros(DType::kFloat32, {});
      *tensor.data<float>() = *number;
      node->set_argument(
          name, graph.add_constant(free_fqn(graph, next), std::move(tensor), InputKind::kBuffer));
      ++changes;
    }
  }
  return changes;
}

}  // namespace octet
