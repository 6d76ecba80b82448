// Matches patterns against graphs.
#include <algorithm>

#include "core/ops/op_schema.h"
#include "core/pattern/pattern.h"

namespace octet {
namespace {

bool holds_values_or_none(const Argument& argument) {
  return argument.is_none() || argument.value_or_null() != nullptr ||
         argument.find<std::vector<Value*>>() != nullptr ||
         argument.find<OptionalTensors>() != nullptr || argument.find<OptionalTensor>() != nullptr;
}

bool is_list_of_values(const Argument& argument) {
  return argument.find<std::vector<Value*>>() != nullptr ||
         argument.find<OptionalTensors>() != nullptr || argument.find<NestedTensors>() != nullptr;
}

TensorArgument tensor_argument(const std::string& name, bool is_list, const Argument* argument) {
  TensorArgument result{name, is_list, {}};
  if (argument != nullptr)
    for_each_value(*argument, [&](Value* value) { result.values.push_back(value); });
  return result;
}

class Matcher {
 public:
  explicit Matcher(InnerUse inner_use) : inner_use_(inner_use) {}

  bool call(const PatternTerm& term, Node& node) {
    if (std::ranges::none_of(term.ops, [&](const std::string& op) { return node.is(op); }))
      return false;
    match.nodes.push_back(&node);
    const std::vector<TensorArgument> arguments = tensor_arguments(node);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (i >= term.parameters.size()) {
        if (!term.ignores_rest && !arguments[i].values.empty()) return false;
        continue;
      }
      if (!parameter(term.parameters[i], arguments[i], node)) return false;
    }
    for (size_t i = arguments.size(); i < term.parameters.size(); ++i)
      if (!term.parameters[i].is_optional) return false;
    return true;
  }

  Match match;

 private:
  bool parameter(const PatternTerm& term, const TensorArgument& argument, Node& consumer) {
    if (argument.values.empty() && !(term.is_list && argument.is_list)) return term.is_optional;
    if (!term.is_list && argument.values.size() != 1) return false;
    const bool binds_list = term.is_list;
    if (binds_list && term.kind == PatternTerm::Kind::kVariable)
      return list_variable(term, argument, consumer);
    list_depth_ += binds_list ? 1 : 0;
    const bool all = std::ranges::all_of(
        argument.values, [&](Value* value) { return this->value(term, value, consumer); });
    list_depth_ -= binds_list ? 1 : 0;
    return all;
  }

  bool value(const PatternTerm& term, Value* value, Node& consumer) {
    switch (term.kind) {
      case PatternTerm::Kind::kAny: return true;
      case PatternTerm::Kind::kVariable: return variable(term.variable, value, consumer);
      case PatternTerm::Kind::kCall: break;
    }
    Node* producer = value->producer();
    if (producer == nullptr || value->index() != 0) return false;
    if (inner_use_ == InnerUse::kOnlyInMatch) {
      if (!value->has_one_user()) return false;
      for (const Value* other : producer->outputs())
        if (other != value && !other->is_unused()) return false;
    }
    return call(term, *producer);
  }

  bool variable(const std::string& name, Value* value, Node& consumer) {
    std::vector<Value*>& bound = match.bindings[name];
    match.consumers.emplace(name, &consumer);
    if (!bound.empty() && list_depth_ == 0) return bound.front() == value;
    bound.push_back(value);
    return true;
  }

  bool list_variable(const PatternTerm& term, const TensorArgument& argument, Node& consumer) {
    const auto [entry, is_new] = match.bindings.emplace(term.variable, argument.values);
    match.consumers.emplace(term.variable, &consumer);
    if (is_new) return true;
    if (list_depth_ == 0) return entry->second == argument.values;
    entry->second.insert(entry->second.end(), argument.values.begin(), argument.values.end());
    return true;
  }

  InnerUse inner_use_;
  int list_depth_ = 0;
};

}  // namespace

Value* Match::find(std::string_view variable) const {
  const std::vector<Value*>& all = find_all(variable);
  return all.empty() ? nullptr : all.front();
}

const std::vector<Value*>& Match::find_all(std::string_view variable) const {
  static const std::vector<Value*> kNone;
  const auto found = bindings.find(std::string(variable));
  return found == bindings.end() ? kNone : found->second;
}

Node* Match::consumer(std::string_view variable) const {
  const auto found = consumers.find(std::string(variable));
  return found == consumers.end() ? nullptr : found->second;
}

std::optional<Match> match(const PatternVariant& variant, Node& root, InnerUse inner_use) {
  Matcher matcher(inner_use);
  matcher.match.root = &root;
  if (!matcher.call(variant.root, root)) return std::nullopt;
  return std::move(matcher.match);
}

std::optional<Match> match(const Pattern& pattern, Node& root, InnerUse inner_use) {
  for (const PatternVariant& variant : pattern.variants)
    if (std::optional<Match> found = match(variant, root, inner_use)) return found;
  return std::nullopt;
}

std::vector<TensorArgument> tensor_arguments(const Node& node) {
  std::vector<TensorArgument> result;
  if (const OpSchema* schema = find_op_schema(node.target())) {
    for (const SchemaArgument& argument : schema->arguments)
      if (argument.type.starts_with("Tensor"))
        result.push_back(tensor_argument(argument.name,
                                         argument.type.find('[') != std::string::npos,
                                         node.find_argument(argument.name)));
    return result;
  }
  for (const NamedArgument& argument : node.arguments())
    if (holds_values_or_none(argument.value))
      result.push_back(
          tensor_argument(argument.name, is_list_of_values(argument.value), &argument.value));
  return result;
}

}  // namespace octet
