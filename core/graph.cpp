#include "core/graph.h"

#include <algorithm>
#include <set>

#include "core/error.h"

namespace octet {

bool TensorMeta::is_static() const {
  return std::none_of(sizes.begin(), sizes.end(), [](const Dim& dim) { return dim.is_symbolic(); });
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
        } else if constexpr (std::is_same_v<T, SymIntList> || std::is_same_v<T, SymFloatList> || std::is_same_v<T, SymBoolList>) {
          visit_symbols(alternative);
        } else if constexpr (std::is_same_v<T, ArgumentMap>) {
          for (auto& [key, item] : alternative.items) for_each_slot(*item, slot);
        }
      },
      static_cast<std::conditional_t<std::is_const_v<ArgumentType>, const ArgumentVariant&, ArgumentVariant&>>(argument));
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
  const auto dots = std::count(op.begin(), op.end(), '.');
  if (dots >= 2 || op.starts_with("_operator.") || op.starts_with("higher_order.")) return target_ == op;
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
  throw Error("graph", name_ + " (" + target_ + ")", "argument \"" + std::string(name) + "\" is not an int literal, want an int; export with static values");
}

double Node::float_or(std::string_view name, double fallback) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr || argument->is_none()) return fallback;
  if (const double* value = argument->find<double>()) return *value;
  if (const int64_t* value = argument->find<int64_t>()) return static_cast<double>(*value);
  if (const bool* value = argument->find<bool>()) return *value ? 1.0 : 0.0;
  if (const SymFloatLiteral* value = argument->find<SymFloatLiteral>()) return value->value;
  throw Error("graph", name_ + " (" + target_ + ")", "argument \"" + std::string(name) + "\" is not a number, want a float literal");
}

bool Node::bool_or(std::string_view name, bool fallback) const {
  const Argument* argument = find_argument(name);
  if (argument == nullptr || argument->is_none()) return fallback;
  if (const bool* value = argument->find<bool>()) return *value;
  if (const SymBoolLiteral* value = argument->find<SymBoolLiteral>()) return value->value;
  throw Error("graph", name_ + " (" + target_ + ")", "argument \"" + std::string(name) + "\" is not a bool, want a bool literal");
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
  if (const std::vector<Value*>* empty = argument->find<std::vector<Value*>>(); empty != nullptr && empty->empty()) return {};
  throw Error("graph", name_ + " (" + target_ + ")", "argument \"" + std::string(name) + "\" is symbolic or no list, want ints; export with static values");
}

std::vector<Value*> Node::inputs() const {
  std::vector<Value*> result;
  for (const NamedArgument& argument : arguments_)
    for_each_value(argument.value, [&](Value* value) {
      if (std::find(result.begin(), result.end(), value) == result.end()) result.push_back(value);
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
  OCTET_ASSERT(only != nullptr, name_ + " (" + target_ + ") has not exactly one result");
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
  for (NamedArgument& argument : arguments_) rewrite_values(argument.value, [&](Value* value) { return value == from ? to : value; });
  graph_->relink(*this);
}

std::vector<ModuleFrame> module_stack(const Node& node) {
  std::vector<ModuleFrame> frames;
  const auto found = node.metadata.find("nn_module_stack");
  if (found == node.metadata.end()) return frames;
  // "key,path,type;key,path,type": the type may hold commas, the key and the path do not.
  std::string_view rest = found->second;
  while (!rest.empty()) {
    const size_t end = rest.find(';');
    std::string_view entry = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    const size_t first = entry.find(',');
    if (first == std::string_view::npos) continue;
    const size_t second = entry.find(',', first + 1);
    if (second == std::string_view::npos) continue;
    frames.push_back({std::string(entry.substr(first + 1, second - first - 1)), std::string(entry.substr(second + 1))});
  }
  return frames;
}

// ---- graph

Graph::Graph() = default;
Graph::~Graph() = default;

Graph::Graph(Graph&& other) noexcept { *this = std::move(other); }

Graph& Graph::operator=(Graph&& other) noexcept {
  nodes_ = std::move(other.nodes_);
  values_ = std::move(other.values_);
  node_names_ = std::move(other.node_names_);
  inputs_ = std::move(other.inputs_);
  outputs_ = std::move(other.outputs_);
  output_uses_ = std::move(other.output_uses_);
  order_.clear();
  constants = std::move(other.constants);
  range_constraints = std::move(other.range_constraints);
  extras = std::move(other.extras);
  source = std::move(other.source);
  is_single_tensor_return = other.is_single_tensor_return;
  for (const std::unique_ptr<Node>& node : nodes_) node->graph_ = this;
  for (const auto& [name, value] : values_) value->graph_ = this;
  return *this;
}

std::vector<Node*> Graph::nodes() const {
  std::vector<Node*> result;
  result.reserve(nodes_.size());
  for (const std::unique_ptr<Node>& node : nodes_) result.push_back(node.get());
  return result;
}

std::vector<Node*> Graph::nodes_of(std::string_view op) const {
  std::vector<Node*> result;
  for (const std::unique_ptr<Node>& node : nodes_)
    if (node->is(op)) result.push_back(node.get());
  return result;
}

std::vector<Value*> Graph::user_inputs() const {
  std::vector<Value*> result;
  for (const GraphInput& input : inputs_)
    if (input.kind == InputKind::kUserInput) result.push_back(input.value);
  return result;
}

Value* Graph::find_value(std::string_view name) const {
  const auto found = values_.find(std::string(name));
  return found == values_.end() ? nullptr : found->second.get();
}

Node* Graph::find_node(std::string_view name) const {
  const auto found = node_names_.find(std::string(name));
  return found == node_names_.end() ? nullptr : found->second;
}

const GraphInput* Graph::find_input(const Value* value) const {
  for (const GraphInput& input : inputs_)
    if (input.value == value) return &input;
  return nullptr;
}

const Tensor* Graph::find_constant(const Value* value) const {
  if (value == nullptr || value->producer() != nullptr) return nullptr;
  const GraphInput* input = find_input(value);
  if (input == nullptr || input->fqn.empty()) return nullptr;
  const auto found = constants.find(input->fqn);
  return found == constants.end() ? nullptr : &found->second.tensor;
}

bool Graph::is_before(const Node& a, const Node& b) const {
  if (order_.size() != nodes_.size()) {
    order_.clear();
    size_t position = 0;
    for (const std::unique_ptr<Node>& node : nodes_) order_[node.get()] = position++;
  }
  return order_.at(&a) < order_.at(&b);
}

Value* Graph::make_value(std::string name, ValueKind kind, std::optional<TensorMeta> meta, Node* producer, int index) {
  if (values_.contains(name)) throw Error("graph", "%" + name, "the name is defined twice; the file is damaged");
  auto value = std::make_unique<Value>();
  value->name_ = name;
  value->kind_ = kind;
  value->meta = std::move(meta);
  value->producer_ = producer;
  value->index_ = index;
  value->graph_ = this;
  Value* raw = value.get();
  values_.emplace(std::move(name), std::move(value));
  return raw;
}

void Graph::drop_value(Value* value) {
  OCTET_ASSERT(value->is_unused(), "%" + value->name() + " still has users");
  values_.erase(std::string(value->name()));
}

Value* Graph::add_input(std::string name, ValueKind kind, std::optional<TensorMeta> meta) {
  return add_input(GraphInput{}, std::move(name), kind, std::move(meta));
}

Value* Graph::add_input(GraphInput input, std::string name, ValueKind kind, std::optional<TensorMeta> meta) {
  input.value = make_value(std::move(name), kind, std::move(meta), nullptr, static_cast<int>(inputs_.size()));
  inputs_.push_back(std::move(input));
  return inputs_.back().value;
}

Value* Graph::add_constant(const std::string& fqn, Tensor tensor, InputKind kind) {
  std::string key = fqn;
  for (int suffix = 1; constants.contains(key); ++suffix) key = fqn + "_" + std::to_string(suffix);
  // torch's placeholder names: p_ for parameters, b_ for buffers, c_ for lifted constants.
  std::string name = kind == InputKind::kParameter ? "p_" : kind == InputKind::kBuffer ? "b_" : "c_";
  for (char c : key) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  GraphInput input{.kind = kind, .fqn = key, .persistent = true, .constant = {}};
  input.value = make_value(fresh_name(name), ValueKind::kTensor, make_meta(tensor.dtype(), tensor.shape()), nullptr, 0);
  for (size_t i = 0; i < tensor.strides().size(); ++i) input.value->meta->strides[i] = {tensor.strides()[i], ""};
  input.value->meta->requires_grad = kind == InputKind::kParameter;
  constants[key] = {std::move(tensor), kind == InputKind::kParameter, kind == InputKind::kParameter};
  // torch's signature order: parameters, buffers, constants, user inputs.
  const auto rank = [](InputKind k) { return k == InputKind::kToken ? 0 : k == InputKind::kParameter ? 1 : k == InputKind::kBuffer ? 2 : k == InputKind::kTensorConstant ? 3 : 4; };
  const auto place = std::find_if(inputs_.begin(), inputs_.end(), [&](const GraphInput& other) { return rank(other.kind) > rank(kind); });
  Value* value = input.value;
  inputs_.insert(place, std::move(input));
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].value->index_ = static_cast<int>(i);
  return value;
}

Node* Graph::add_node(std::string target, std::vector<NamedArgument> arguments, std::string name, Node* before) {
  auto node = std::make_unique<Node>();
  // A node and its own result may share a name, so only node names count here.
  std::string unique = name;
  for (int suffix = 1; node_names_.contains(unique); ++suffix) unique = name + "_" + std::to_string(suffix);
  node->name_ = unique;
  node->target_ = std::move(target);
  node->arguments_ = std::move(arguments);
  node->graph_ = this;
  Node* raw = node.get();
  raw->position_ = nodes_.insert(before == nullptr ? nodes_.end() : before->position_, std::move(node));
  node_names_[unique] = raw;
  order_.clear();
  relink(*raw);
  return raw;
}

Value* Graph::add_result(Node& node, std::string name, std::optional<TensorMeta> meta, ValueKind kind) {
  Value* value = make_value(std::move(name), kind, std::move(meta), &node, static_cast<int>(node.outputs().size()));
  node.results_.push_back({ResultSlot::Kind::kSingle, {value}, {}});
  return value;
}

std::vector<Value*> Graph::add_list_result(Node& node, std::vector<std::string> names, std::vector<std::optional<TensorMeta>> metas) {
  std::vector<Value*> values;
  const int first = static_cast<int>(node.outputs().size());
  for (size_t i = 0; i < names.size(); ++i)
    values.push_back(make_value(names[i], ValueKind::kTensor, metas.empty() ? std::nullopt : metas[i], &node, first + static_cast<int>(i)));
  node.results_.push_back({ResultSlot::Kind::kList, values, {}});
  return values;
}

void Graph::add_optional_list_result(Node& node, const std::vector<std::optional<std::string>>& names,
                                     std::vector<std::optional<TensorMeta>> metas) {
  std::vector<Value*> values;
  int index = static_cast<int>(node.outputs().size());
  for (size_t i = 0; i < names.size(); ++i)
    values.push_back(names[i] ? make_value(*names[i], ValueKind::kTensor, metas.empty() ? std::nullopt : metas[i], &node, index++) : nullptr);
  node.results_.push_back({ResultSlot::Kind::kOptionalList, std::move(values), {}});
}

void Graph::add_literal_result(Node& node, Argument literal) { node.results_.push_back({ResultSlot::Kind::kLiteral, {}, std::move(literal)}); }

Node* Graph::insert(std::string target, std::vector<NamedArgument> arguments, std::string name, std::optional<TensorMeta> meta, Node* before) {
  Node* node = add_node(std::move(target), std::move(arguments), fresh_name(name), before);
  add_result(*node, node->name(), std::move(meta));
  return node;
}

void Graph::add_output(GraphOutput output) {
  for_each_value(output.value, [&](Value* value) { ++output_uses_[value]; });
  outputs_.push_back(std::move(output));
}

void Graph::set_output(size_t index, Argument value) {
  GraphOutput& output = outputs_.at(index);
  for_each_value(output.value, [&](Value* old) {
    if (--output_uses_[old] == 0) output_uses_.erase(old);
  });
  output.value = std::move(value);
  for_each_value(output.value, [&](Value* used) { ++output_uses_[used]; });
}

void Graph::replace_uses(Value* from, Value* to) {
  if (from == to) return;
  for (Node* user : std::vector<Node*>(from->users_)) user->replace_input(from, to);
  replace_uses_in_outputs(from, to);
}

void Graph::replace_uses_in_outputs(Value* from, Value* to) {
  for (size_t i = 0; i < outputs_.size() && from->is_output(); ++i) {
    Argument value = outputs_[i].value;
    rewrite_values(value, [&](Value* old) { return old == from ? to : old; });
    set_output(i, std::move(value));
  }
}

void Graph::move_before(Node& node, Node* before) {
  nodes_.splice(before == nullptr ? nodes_.end() : before->position_, nodes_, node.position_);
  order_.clear();
}

void Graph::erase(Node& node) {
  for (Value* value : node.outputs()) OCTET_ASSERT(value->is_unused(), "%" + value->name() + " still has users");
  unlink(node);
  for (Value* value : node.outputs()) drop_value(value);
  node_names_.erase(node.name_);
  nodes_.erase(node.position_);
  order_.clear();
}

void Graph::erase_input(Value& value) {
  const auto found = std::find_if(inputs_.begin(), inputs_.end(), [&](const GraphInput& input) { return input.value == &value; });
  OCTET_ASSERT(found != inputs_.end(), "%" + value.name() + " is no input");
  const std::string fqn = found->fqn;
  inputs_.erase(found);
  drop_value(&value);
  if (!fqn.empty() && std::none_of(inputs_.begin(), inputs_.end(), [&](const GraphInput& input) { return input.fqn == fqn; })) constants.erase(fqn);
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].value->index_ = static_cast<int>(i);
}

std::string Graph::fresh_name(std::string_view base) const {
  std::string name(base);
  for (int suffix = 1; values_.contains(name) || node_names_.contains(name); ++suffix) name = std::string(base) + "_" + std::to_string(suffix);
  return name;
}

void Graph::rename(Node& node, std::string name) {
  if (name == node.name_) return;
  OCTET_ASSERT(!node_names_.contains(name), "node name " + name + " is taken");
  Value* same = node.output_or_null();
  if (same != nullptr && same->name_ == node.name_) rename(*same, name);
  node_names_.erase(node.name_);
  node.name_ = name;
  node_names_[name] = &node;
}

void Graph::rename(Value& value, std::string name) {
  if (name == value.name_) return;
  OCTET_ASSERT(!values_.contains(name), "%" + name + " is taken");
  auto entry = values_.extract(value.name_);
  value.name_ = name;
  entry.key() = std::move(name);
  values_.insert(std::move(entry));
}

void Graph::unlink(Node& node) {
  for (Value* value : node.inputs()) std::erase(value->users_, &node);
}

void Graph::relink(Node& node) {
  for (Value* value : node.inputs())
    if (std::find(value->users_.begin(), value->users_.end(), &node) == value->users_.end()) value->users_.push_back(&node);
}

namespace {

// Copies nested subgraphs so that a clone shares no mutable part with its original.
void clone_subgraphs(Argument& argument) {
  if (Subgraph* subgraph = std::get_if<Subgraph>(static_cast<ArgumentVariant*>(&argument))) {
    subgraph->graph = clone(*subgraph->graph);
  } else if (ArgumentMap* map = std::get_if<ArgumentMap>(static_cast<ArgumentVariant*>(&argument))) {
    for (auto& [key, item] : map->items) {
      item = std::make_shared<Argument>(*item);
      clone_subgraphs(*item);
    }
  }
}

Value* clone_value_facts(const Value& from, Value* to) {
  to->symbol = from.symbol;
  to->symbol_hint = from.symbol_hint;
  to->symbol_hint_float = from.symbol_hint_float;
  to->has_symbol_hint = from.has_symbol_hint;
  to->class_fqn = from.class_fqn;
  return to;
}

void clone_results(const Node& from, Node& to, Graph& graph, std::unordered_map<const Value*, Value*>& map) {
  for (const ResultSlot& slot : from.results()) {
    std::vector<std::optional<std::string>> names;
    std::vector<std::optional<TensorMeta>> metas;
    for (const Value* value : slot.values) {
      names.push_back(value == nullptr ? std::nullopt : std::optional(value->name()));
      metas.push_back(value == nullptr ? std::nullopt : value->meta);
    }
    switch (slot.kind) {
      case ResultSlot::Kind::kSingle: graph.add_result(to, *names.front(), metas.front(), slot.values.front()->kind()); break;
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
      if (slot.values[i] != nullptr) map[slot.values[i]] = clone_value_facts(*slot.values[i], to.results().back().values[i]);
  }
}

}  // namespace

std::unique_ptr<Graph> clone(const Graph& graph, std::unordered_map<const Value*, Value*>* mapping) {
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
  for (const Node* node : graph.nodes()) {
    std::vector<NamedArgument> arguments;
    for (const NamedArgument& argument : node->arguments()) arguments.push_back({argument.name, mapped(argument.value), argument.kind});
    Node* twin = copy->add_node(node->target(), std::move(arguments), node->name());
    twin->metadata = node->metadata;
    twin->is_hop_single_tensor_return = node->is_hop_single_tensor_return;
    clone_results(*node, *twin, *copy, map);
  }
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
