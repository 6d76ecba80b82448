#include "support/golden_match.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "annotate/prepare/prepare.h"
#include "core/text/text.h"

namespace octet::test {
namespace {

std::string target_of(const Json& node) {
  const std::string target = node.at("target");
  return target.starts_with("torch.ops.") ? target.substr(10) : target;
}

// Ops that quantization adds; observer nodes among them.
bool is_added(const std::string& op, const std::string& target) {
  return op == "call_module" || target == kObserveTarget ||
         target.starts_with("quantized_decomposed.");
}

// "%name" strings of an argument, nested ones included.
void collect_names(const Json& argument, std::vector<std::string>& names) {
  if (argument.is_string()) {
    if (argument.get<std::string>().starts_with("%"))
      names.push_back(argument.get<std::string>().substr(1));
  } else if (argument.is_structured()) {
    for (const Json& item : argument) collect_names(item, names);
  }
}

std::vector<std::string> names_in(const Json& node) {
  std::vector<std::string> names;
  collect_names(node.at("args"), names);
  if (node.contains("kwargs")) collect_names(node.at("kwargs"), names);
  return names;
}

std::vector<const Value*> values_in(const Node& node) {
  std::vector<const Value*> values;
  for (const NamedArgument& argument : node.arguments())
    for_each_value(argument.value, [&](Value* value) { values.push_back(value); });
  return values;
}

bool is_generated(const std::string& fqn) {
  return fqn.starts_with("_frozen_param") || fqn.starts_with("_scale_") ||
         fqn.starts_with("_zero_point_");
}

double element(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return tensor.data<float>()[i];
    case DType::kInt64: return static_cast<double>(tensor.data<int64_t>()[i]);
    case DType::kInt32: return tensor.data<int32_t>()[i];
    case DType::kInt16: return tensor.data<int16_t>()[i];
    case DType::kUInt16: return tensor.data<uint16_t>()[i];
    case DType::kInt8: return tensor.data<int8_t>()[i];
    case DType::kUInt8: return tensor.data<uint8_t>()[i];
    default: return std::nan("");
  }
}

}  // namespace

GoldenMatch::GoldenMatch(const Json& nodes, const Graph& graph,
                         std::map<std::string, Tensor> constants, MatchTolerance tolerance)
    : nodes_(nodes), graph_(graph), constants_(std::move(constants)), tolerance_(tolerance) {
  const std::vector<Value*> inputs = graph_.user_inputs();
  size_t position = 0;
  for (const Json& node : nodes_) {
    by_name_[node.at("name")] = &node;
    if (node.at("op") == "placeholder" && position < inputs.size())
      placeholders_[node.at("name")] = inputs[position++];
  }
  match_compute_nodes();
  std::vector<std::string> outputs;
  for (const Json& node : nodes_)
    if (node.at("op") == "output") outputs = names_in(node);
  std::vector<const Value*> our_outputs;
  for (const GraphOutput& output : graph_.outputs())
    if (output.kind == OutputKind::kUserOutput && output.value.value_or_null() != nullptr)
      our_outputs.push_back(output.value.value_or_null());
  if (outputs.size() != our_outputs.size())
    differ("output", fmt::format("{} outputs, want {}", our_outputs.size(), outputs.size()));
  for (size_t i = 0; i < std::min(outputs.size(), our_outputs.size()); ++i)
    match_value(outputs[i], our_outputs[i], "output");
}

void GoldenMatch::match_compute_nodes() {
  std::vector<const Node*> ours;
  int added = 0;
  for (const Node* node : graph_.nodes()) {
    if (is_added("call_function", node->target()))
      ++added;
    else
      ours.push_back(node);
  }
  size_t position = 0;
  std::vector<const Json*> golden;
  for (const Json& node : nodes_) {
    const std::string op = node.at("op");
    if (op != "call_function" && op != "call_module") continue;
    if (is_added(op, target_of(node))) {
      --added;
      continue;
    }
    if (target_of(node) == "_operator.getitem") continue;
    if (position >= ours.size()) return differ(node.at("name"), "is missing");
    compute_[node.at("name")] = ours[position++];
    golden.push_back(&node);
  }
  if (position != ours.size()) return differ(ours[position]->name(), "is too many");
  if (added != 0)
    differ("graph", fmt::format("{} more ops of quantization than the golden graph", added));
  for (const Json* node : golden) match_node(*node, *compute_.at(node->at("name")));
}

void GoldenMatch::match_node(const Json& golden, const Node& node) {
  const std::string name = golden.at("name");
  if (target_of(golden) != node.target())
    return differ(name, fmt::format("{}, want {}", node.target(), target_of(golden)));
  const std::vector<std::string> names = names_in(golden);
  const std::vector<const Value*> values = values_in(node);
  if (names.size() != values.size())
    return differ(name, fmt::format("{} inputs, want {}", values.size(), names.size()));
  for (size_t i = 0; i < names.size(); ++i)
    match_value(names[i], values[i], fmt::format("{} input {}", name, i));
}

void GoldenMatch::match_value(const std::string& golden_name, const Value* value,
                              const std::string& where) {
  const auto [known, is_new] = paired_.try_emplace(golden_name, value);
  if (!is_new) {
    if (known->second != value)
      differ(where, fmt::format("%{}, want what stands for {}: %{}", value->name(), golden_name,
                                known->second->name()));
    return;
  }
  if (!paired_back_.try_emplace(value, golden_name).second)
    return differ(where, fmt::format("%{} stands for both {} and {}", value->name(),
                                     paired_back_[value], golden_name));
  const Json& golden = *by_name_.at(golden_name);
  if (golden.at("op") == "placeholder" || golden.at("op") == "get_attr")
    return match_input(golden, value, where);
  if (value->producer() == nullptr)
    return differ(where, fmt::format("the input %{}, want {}", value->name(), golden_name));
  const bool is_item = target_of(golden) == "_operator.getitem";
  const Json& source =
      is_item ? *by_name_.at(golden.at("args").at(0).get<std::string>().substr(1)) : golden;
  if (is_item && value->index() != golden.at("args").at(1).get<int>())
    return differ(
        where, fmt::format("result {}, want {}", value->index(), golden.at("args").at(1).dump()));
  if (is_added(source.at("op"), target_of(source)))
    return match_added_node(source, *value->producer(), where);
  const auto compute = compute_.find(source.at("name"));
  if (compute == compute_.end() || compute->second != value->producer())
    differ(where, fmt::format("%{} of {}, want {}", value->name(), value->producer()->target(),
                              golden_name));
}

void GoldenMatch::match_added_node(const Json& golden, const Node& node, const std::string& where) {
  const std::string inside = fmt::format("{} <- {}", where, golden.at("name").get<std::string>());
  if (golden.at("op") == "call_module") {
    if (node.target() != kObserveTarget)
      return differ(inside, fmt::format("{}, want an observer node", node.target()));
    match_group(golden, node, inside);
    return match_value(golden.at("args").at(0).get<std::string>().substr(1),
                       node.find_input("input"), inside);
  }
  if (target_of(golden) != node.target())
    return differ(inside, fmt::format("{}, want {}", node.target(), target_of(golden)));
  std::vector<Json> arguments(golden.at("args").begin(), golden.at("args").end());
  if (golden.contains("kwargs"))
    for (const Json& item : golden.at("kwargs")) arguments.push_back(item);
  if (arguments.size() != node.arguments().size())
    return differ(inside,
                  fmt::format("{} arguments, want {}", node.arguments().size(), arguments.size()));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const NamedArgument& argument = node.arguments()[i];
    const Value* value = argument.value.value_or_null();
    const bool want_value =
        arguments[i].is_string() && arguments[i].get<std::string>().starts_with("%");
    if (want_value != (value != nullptr))
      differ(inside, fmt::format("argument {} has another kind", argument.name));
    else if (value != nullptr)
      match_value(arguments[i].get<std::string>().substr(1), value, inside);
    else
      match_literal(arguments[i], argument, inside);
  }
}

void GoldenMatch::match_literal(const Json& golden, const NamedArgument& argument,
                                const std::string& where) {
  if (const int64_t* number = argument.value.find<int64_t>()) {
    const double tolerance = argument.name == "zero_point" ? tolerance_.zero_point_atol : 0;
    if (!golden.is_number() ||
        std::abs(static_cast<double>(*number) - golden.get<double>()) > tolerance)
      differ(where, fmt::format("{} {}, want {}", argument.name, *number, golden.dump()));
  } else if (const double* number = argument.value.find<double>()) {
    if (!golden.is_number() || std::abs(*number - golden.get<double>()) >
                                   tolerance_.scale_rtol * std::abs(golden.get<double>()))
      differ(where, fmt::format("{} {}, want {}", argument.name, *number, golden.dump()));
  } else if (const DType* dtype = argument.value.find<DType>()) {
    if (golden != Json("torch." + std::string(name_of(*dtype))))
      differ(where, fmt::format("{} {}, want {}", argument.name, name_of(*dtype), golden.dump()));
  } else {
    differ(where, fmt::format("argument {} has another kind", argument.name));
  }
}

void GoldenMatch::match_group(const Json& golden, const Node& node, const std::string& where) {
  const int want = golden.at("observer").at("group");
  const int ours = group_of(node);
  const auto [it, is_new] = groups.try_emplace(want, ours);
  if (!is_new && it->second != ours)
    differ(where, fmt::format("group {}, want {} (the golden {})", ours, it->second, want));
  if (is_new)
    for (const auto& [other_want, other] : groups)
      if (other_want != want && other == ours)
        differ(where, fmt::format("group {} stands for the golden groups {} and {}", ours, want,
                                  other_want));
}

void GoldenMatch::match_input(const Json& golden, const Value* value, const std::string& where) {
  if (value->producer() != nullptr)
    return differ(where,
                  fmt::format("%{} of {}, want the input {}", value->name(),
                              value->producer()->target(), golden.at("name").get<std::string>()));
  if (golden.at("op") == "get_attr") return match_constant(golden, value, where);
  const auto it = placeholders_.find(golden.at("name"));
  if (it == placeholders_.end() || it->second != value)
    differ(where, fmt::format("%{}, want {}", value->name(), golden.at("name").get<std::string>()));
}

void GoldenMatch::match_constant(const Json& golden, const Value* value, const std::string& where) {
  const GraphInput* input = graph_.find_input(value);
  const std::string target = golden.at("target");
  if (input == nullptr || graph_.find_constant(value) == nullptr)
    return differ(where, fmt::format("%{}, want the constant {}", value->name(), target));
  if (!is_generated(target)) {
    if (input->fqn != target && !target.starts_with("_tensor_constant"))
      differ(where, fmt::format("{}, want {}", input->fqn, target));
    return;
  }
  const Tensor& ours = *graph_.find_constant(value);
  const auto want = constants_.find(target);
  if (want == constants_.end()) return differ(where, target + " is not among the golden tensors");
  if (ours.dtype() != want->second.dtype() || ours.shape() != want->second.shape())
    return differ(where, fmt::format("{} is {}, want {}", input->fqn, describe(ours),
                                     describe(want->second)));
  const bool is_float = is_floating_point(ours.dtype());
  int64_t off = 0;
  for (int64_t i = 0; i < ours.numel(); ++i) {
    const double difference = std::abs(element(ours, i) - element(want->second, i));
    const double allowed = is_float ? tolerance_.scale_rtol * std::abs(element(want->second, i))
                           : target.starts_with("_zero_point") ? tolerance_.zero_point_atol
                                                               : 0;
    if (!(difference <= allowed)) ++off;
  }
  if (off > 0)
    differ(where, fmt::format("{} of {} elements of {} differ", off, ours.numel(), target));
}

void GoldenMatch::differ(const std::string& where, const std::string& message) {
  differences.push_back(where + ": " + message);
}

}  // namespace octet::test
