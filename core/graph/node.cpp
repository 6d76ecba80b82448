// Types, arguments, values, nodes and deep copies; ownership is in graph.cpp.
#include <algorithm>

#include "core/base/error.h"
#include "core/graph/graph.h"

namespace octet {
namespace {

// Copies nested subgraphs so that a clone shares no mutable part with its original.
void clone_subgraphs(Argument& argument) {
  if (Subgraph* subgraph = std::get_if<Subgraph>(static_cast<ArgumentVariant*>(&argument))) {
    subgraph->graph = clone(*subgraph->graph);
  } else if (ArgumentMap* map =
                 std::get_if<ArgumentMap>(static_cast<ArgumentVariant*>(&argument))) {
    for (auto& [key, item] : map->items) {
      item = std::make_shared<Argument>(*item);
      clone_subgraphs(*item);
    }
  }
}

std::string free_name(const Graph& graph, const std::string& name) {
  return graph.find_value(name) == nullptr ? name : graph.fresh_name(name);
}

void clone_results(const Node& from, Node& to, Graph& graph,
                   std::unordered_map<const Value*, Value*>& map) {
  for (const ResultSlot& slot : from.results()) {
    std::vector<std::optional<std::string>> names;
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value* value : slot.values) {
      names.push_back(value == nullptr ? std::nullopt
                                       : std::optional(free_name(graph, value->name())));
      metas.push_back(value == nullptr ? std::nullopt : value->meta);
    }
    switch (slot.kind) {
      case ResultSlot::Kind::kSingle:
        graph.add_result(to, *names.front(), metas.front(), slot.values.front()->kind());
        break;
      case ResultSlot::Kind::kList: {
        std::vector<std::string> plain;
        for (const auto& name : names) plain.push_back(*name);
        graph.add_list_result(to, plain, metas);
        break;
      }
      case ResultSlot::Kind::kOptionalList: graph.add_optional_list_result(to, names, metas); break;
      case ResultSlot::Kind::kLiteral: graph.add_literal_result(to, slot.literal); break;
    }
    for (size_t i = 0; i < slot.values.size(); ++i)
      if (slot.values[i] != nullptr)
        map[slot.values[i]] = clone_value_facts(*slot.values[i], to.results().back().values[i]);
  }
}

}  // namespace

bool TensorMeta::is_static() const {
  return std::ranges::none_of(sizes, [](const Dim& dim) { return dim.is_symbolic(); });
}

std::vector<int64_t> TensorMeta::shape() const {
  std::vector<int64_t> result;
  for (const Dim& dim : sizes) result.push_back(dim.value);
  return result;
}

TensorMeta make_meta(DType dtype, const std::vector<int64_t>& shape) {
  TensorMeta meta;
  meta.dtype = dtype;
  for (int64_t size : shape) meta.sizes.push_back({size, ""});
  for (int64_t stride : contiguous_strides(shape)) meta.strides.push_back({stride, ""});
  return meta;
}

// ---- arguments

Value* Argument::value_or_null() const {
  if (Value* const* value = find<Value*>()) return *value;
  if (const OptionalTensor* optional = find<OptionalTensor>()) return optional->value;
  return nullptr;
}

namespace {

// Calls slot(Value*&) on every non-null Value slot; works on const and mutable arguments alike.
template <typename ArgumentType, typename SlotFunction>
void for_each_slot(ArgumentType& argument, const SlotFunction& slot) {
  const auto visit_list = [&](auto& list) {
    for (auto& value : list)
      if (value != nullptr) slot(value);
  };
  const auto visit_symbols = [&](auto& list) {
    for (auto& item : list.items)
      if (auto* value = std::get_if<Value*>(&item)) slot(*value);
  };
  std::visit(
      [&](auto& alternative) {
        using T = std::decay_t<decltype(alternative)>;
        if constexpr (std::is_same_v<T, Value*>) {
          slot(alternative);
        } else if constexpr (std::is_same_v<T, std::vector<Value*>>) {
          visit_list(alternative);
        } else if constexpr (std::is_same_v<T, OptionalTensor>) {
          if (alternative.value != nullptr) slot(alternative.value);
        } else if constexpr (std::is_same_v<T, OptionalTensors>) {
          visit_list(alternative.items);
        } else if constexpr (std::is_same_v<T, NestedTensors>) {
          for (auto& list : alternative.items) visit_list(list);
        } else if constexpr (std::is_same_v<T, SymIntList> || std::is_same_v<T, SymFloatList> ||
                             std::is_same_v<T, SymBoolList>) {
          visit_symbols(alternative);
        } else if constexpr (std::is_same_v<T, ArgumentMap>) {
          for (auto& [key, item] : alternative.items) for_each_slot(*item, slot);
        }
      },
      static_cast<std::conditional_t<std::is_const_v<ArgumentType>, const ArgumentVariant&,
                                     ArgumentVariant&>>(argument));
}

}  // namespace

void for_each_value(const Argument& argument, const std::function<void(Value*)>& visit) {
  for_each_slot(argument, [&](Value* const& value) { visit(value); });
}

void rewrite_values(Argument& argument, const std::function<Value*(Value*)>& replace) {
  for_each_slot(argument, [&](Value*& value) { value = replace(value); });
}

// ---- values and nodes

bool Value::is_output() const { return graph_->output_uses_.contains(this); }

bool Node::is(std::string_view op) const {
  const auto dots = std::ranges::count(op, '.');
  if (dots >= 2 || op.starts_with("_operator.") || op.starts_with("higher_order."))
    return target_ == op;
  const size_t overload = target_.rfind('.');
  if (overload == std::string::npos) return target_ == op;
  std::string_view base = std::string_view(target_).substr(0, overload);
  if (base == op) return true;
  return base.size() == op.size() + 1 && base.ends_with('_') && base.starts_with(op);
}

const Argument* Node::find_argument(std::string_view name) const {
  for (const NamedArgument& argument : arguments_)
    if (argument.name == name) return &argument.value;
  return nullptr;
}

Value* Node::find_input(std::string_view name) const {
  const Argument* argument = find_argument(name);
  return argument == nullptr ? nullptr : argument->value_or_null();
}

int64_t Node::int_or(std::string_view name, int64_t fallback) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr || argument->is_none()) return fallback;
  if (const int64_t* value = argument->find<int64_t>()) return *value;
  if (const SymIntLiteral* value = argument->find<SymIntLiteral>()) return value->value;
  throw Error("graph", name_ + " (" + target_ + ")",
              "argument \"" + std::string(name) +
                  "\" is not an int literal, want an int; export with static values");
}

double Node::float_or(std::string_view name, double fallback) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr || argument->is_none()) return fallback;
  if (const double* value = argument->find<double>()) return *value;
  if (const int64_t* value = argument->find<int64_t>()) return static_cast<double>(*value);
  if (const bool* value = argument->find<bool>()) return *value ? 1.0 : 0.0;
  if (const SymFloatLiteral* value = argument->find<SymFloatLiteral>()) return value->value;
  throw Error("graph", name_ + " (" + target_ + ")",
              "argument \"" + std::string(name) + "\" is not a number, want a float literal");
}

bool Node::bool_or(std::string_view name, bool fallback) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr || argument->is_none()) return fallback;
  if (const bool* value = argument->find<bool>()) return *value;
  if (const SymBoolLiteral* value = argument->find<SymBoolLiteral>()) return value->value;
  throw Error("graph", name_ + " (" + target_ + ")",
              "argument \"" + std::string(name) + "\" is not a bool, want a bool literal");
}

std::vector<int64_t> Node::ints_or(std::string_view name, std::vector<int64_t> fallback) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr || argument->is_none()) return fallback;
  if (const std::vector<int64_t>* values = argument->find<std::vector<int64_t>>()) return *values;
  if (const int64_t* value = argument->find<int64_t>()) return {*value};
  if (const SymIntList* list = argument->find<SymIntList>()) {
    std::vector<int64_t> values;
    for (const auto& item : list->items)
      if (const int64_t* value = std::get_if<int64_t>(&item)) values.push_back(*value);
    if (values.size() == list->items.size()) return values;
  }
  if (const std::vector<Value*>* empty = argument->find<std::vector<Value*>>();
      empty != nullptr && empty->empty())
    return {};
  throw Error("graph", name_ + " (" + target_ + ")",
              "argument \"" + std::string(name) +
                  "\" is symbolic or not a list, want ints; export with static values");
}

std::vector<Value*> Node::inputs() const {
  std::vector<Value*> result;
  for (const NamedArgument& argument : arguments_)
    for_each_value(argument.value, [&](Value* value) {
      if (std::ranges::find(result, value) == result.end()) result.push_back(value);
    });
  return result;
}

std::vector<Value*> Node::outputs() const {
  std::vector<Value*> result;
  for (const ResultSlot& slot : results_)
    for (Value* value : slot.values)
      if (value != nullptr) result.push_back(value);
  return result;
}

Value* Node::output_or_null() const {
  const std::vector<Value*> all = outputs();
  return all.size() == 1 ? all.front() : nullptr;
}

Value* Node::output() const {
  Value* only = output_or_null();
  OCTET_ASSERT(only != nullptr, name_ + " (" + target_ + ") does not have exactly one result");
  return only;
}

void Node::set_argument(std::string_view name, Argument value, ArgumentKind kind) {
  graph_->unlink(*this);
  NamedArgument* found = nullptr;
  for (NamedArgument& argument : arguments_)
    if (argument.name == name) found = &argument;
  if (found != nullptr) {
    found->value = std::move(value);
  } else {
    arguments_.push_back({std::string(name), std::move(value), kind});
  }
  graph_->relink(*this);
}

void Node::erase_argument(std::string_view name) {
  graph_->unlink(*this);
  std::erase_if(arguments_, [&](const NamedArgument& argument) { return argument.name == name; });
  graph_->relink(*this);
}

void Node::replace_input(Value* from, Value* to) {
  graph_->unlink(*this);
  for (NamedArgument& argument : arguments_)
    rewrite_values(argument.value, [&](Value* value) { return value == from ? to : value; });
  graph_->relink(*this);
}

std::vector<ModuleFrame> module_stack(const Node& node) {
  std::vector<ModuleFrame> frames;
  const auto found = node.metadata.find("nn_module_stack");
  if (found == node.metadata.end()) return frames;
  // "key,path,type;key,path,type": the type may contain commas, key and path do not.
  std::string_view rest = found->second;
  while (!rest.empty()) {
    const size_t end = rest.find(';');
    std::string_view entry = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t first = entry.find(',');
    if (first == std::string_view::npos) continue;
    const size_t second = entry.find(',', first + 1);
    if (second == std::string_view::npos) continue;
    frames.push_back({std::string(entry.substr(first + 1, second - first - 1)),
                      std::string(entry.substr(second + 1))});
  }
  return frames;
}

std::string subject_of(const Node& node) { return "%" + node.name() + " (" + node.target() + ")"; }

Value* clone_value_facts(const Value& from, Value* to) {
  to->symbol = from.symbol;
  to->symbol_hint = from.symbol_hint;
  to->symbol_hint_float = from.symbol_hint_float;
  to->has_symbol_hint = from.has_symbol_hint;
  to->class_fqn = from.class_fqn;
  return to;
}

Node* copy_node(const Node& node, Graph& graph, std::unordered_map<const Value*, Value*>& map,
                Node* before) {
  std::vector<NamedArgument> arguments;
  for (const NamedArgument& argument : node.arguments()) {
    arguments.push_back(argument);
    rewrite_values(arguments.back().value, [&](Value* value) { return map.at(value); });
    clone_subgraphs(arguments.back().value);
  }
  Node* twin = graph.add_node(node.target(), std::move(arguments), node.name(), before);
  twin->metadata = node.metadata;
  twin->is_hop_single_tensor_return = node.is_hop_single_tensor_return;
  clone_results(node, *twin, graph, map);
  return twin;
}

std::unique_ptr<Graph> clone(const Graph& graph,
                             std::unordered_map<const Value*, Value*>* mapping) {
  auto copy = std::make_unique<Graph>();
  std::unordered_map<const Value*, Value*> map;
  const auto mapped = [&](Argument argument) {
    rewrite_values(argument, [&](Value* value) { return map.at(value); });
    clone_subgraphs(argument);
    return argument;
  };
  for (GraphInput input : graph.inputs()) {
    const Value& old = *input.value;
    map[&old] = clone_value_facts(old, copy->add_input(input, old.name(), old.kind(), old.meta));
  }
  for (const Node* node : graph.nodes()) copy_node(*node, *copy, map);
  for (GraphOutput output : graph.outputs()) {
    output.value = mapped(output.value);
    copy->add_output(std::move(output));
  }
  copy->constants = graph.constants;
  copy->range_constraints = graph.range_constraints;
  copy->extras = graph.extras;
  copy->source = graph.source;
  copy->is_single_tensor_return = graph.is_single_tensor_return;
  if (mapping != nullptr) *mapping = std::move(map);
  return copy;
}

}  // namespace octet
