#include "core/passes/scalars.h"

#include <algorithm>

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

// `from`: lower numbers are taken.
std::string free_fqn(const Graph& graph, int& from) {
  for (;; ++from) {
    const std::string fqn = fmt::format("_tensor_constant_{}", from);
    if (!graph.constants.contains(fqn)) return fqn;
  }
}

template <typename List, typename T>
void put_into_list(Argument& argument, const Value* value, const Argument& number) {
  const T* literal = number.find<T>();
  List* list = std::get_if<List>(static_cast<ArgumentVariant*>(&argument));
  if (literal == nullptr || list == nullptr) return;
  for (auto& item : list->items)
    if (Value** held = std::get_if<Value*>(&item); held != nullptr && *held == value)
      item = *literal;
}

void make_plain(Argument& argument) {
  const SymIntList* list = argument.find<SymIntList>();
  if (list == nullptr) return;
  std::vector<int64_t> numbers;
  for (const auto& item : list->items)
    if (const int64_t* number = std::get_if<int64_t>(&item)) numbers.push_back(*number);
  if (numbers.size() == list->items.size()) argument = std::move(numbers);
}

bool holds(const Argument& argument, const Value& value) {
  bool found = false;
  for_each_value(argument, [&](const Value* held) { found = found || held == &value; });
  return found;
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

void put_number(Value& value, const Argument& number) {
  const std::vector<Node*> users = value.users();
  for (Node* user : users) {
    const std::vector<NamedArgument> arguments = user->arguments();
    for (const NamedArgument& argument : arguments) {
      // set_argument needs a name
      const bool is_only =
          std::count_if(arguments.begin(), arguments.end(), [&](const NamedArgument& other) {
            return other.name == argument.name;
          }) == 1;
      if (!is_only || !holds(argument.value, value)) continue;
      Argument changed = argument.value;
      if (changed.find<Value*>() != nullptr) changed = number;
      put_into_list<SymIntList, int64_t>(changed, &value, number);
      put_into_list<SymFloatList, double>(changed, &value, number);
      put_into_list<SymBoolList, bool>(changed, &value, number);
      make_plain(changed);
      user->set_argument(argument.name, std::move(changed), argument.kind);
    }
  }
}

}  // namespace octet
