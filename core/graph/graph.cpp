// Ownership and edits of graphs; keeps names, users and order consistent.
#include "core/graph/graph.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "core/base/error.h"

namespace octet {

namespace {

// torch's signature order: parameters, buffers, constants, user inputs.
size_t rank_of(InputKind kind) {
  return kind == InputKind::kToken            ? 0
         : kind == InputKind::kParameter      ? 1
         : kind == InputKind::kBuffer         ? 2
         : kind == InputKind::kTensorConstant ? 3
                                              : 4;
}

}  // namespace

Graph::Graph() = default;
Graph::~Graph() = default;

Graph::Graph(Graph&& other) noexcept { *this = std::move(other); }

Graph& Graph::operator=(Graph&& other) noexcept {
  nodes_ = std::move(other.nodes_);
  values_ = std::move(other.values_);
  node_names_ = std::move(other.node_names_);
  inputs_ = std::move(other.inputs_);
  input_ranks_ = std::exchange(other.input_ranks_, {});
  outputs_ = std::move(other.outputs_);
  output_uses_ = std::move(other.output_uses_);
  order_.clear();
  fresh_hints_ = std::move(other.fresh_hints_);
  node_hints_ = std::move(other.node_hints_);
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
  if (value == nullptr || value->producer_ != nullptr || value->graph_ != this) return nullptr;
  // maintained by everything that adds or erases inputs
  const size_t position = static_cast<size_t>(value->index_);
  return position < inputs_.size() && inputs_[position].value == value ? &inputs_[position]
                                                                       : nullptr;
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

Node* Graph::find_next(const Node& node) const {
  const auto next = std::next(node.position_);
  return next == nodes_.end() ? nullptr : next->get();
}

Value* Graph::make_value(std::string name, ValueKind kind, std::optional<TensorMeta> meta,
                         Node* producer, int index) {
  if (values_.contains(name))
    throw Error("graph", "%" + name, "the name is defined twice; the file is damaged");
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
  const std::string name = value->name();
  values_.erase(name);
  release_name(name);
}

Value* Graph::add_input(std::string name, ValueKind kind, std::optional<TensorMeta> meta) {
  return add_input(GraphInput{}, std::move(name), kind, std::move(meta));
}

Value* Graph::add_input(GraphInput input, std::string name, ValueKind kind,
                        std::optional<TensorMeta> meta) {
  input.value =
      make_value(std::move(name), kind, std::move(meta), nullptr, static_cast<int>(inputs_.size()));
  ++input_ranks_[rank_of(input.kind)];
  inputs_.push_back(std::move(input));
  return inputs_.back().value;
}

Value* Graph::add_constant(const std::string& fqn, Tensor tensor, InputKind kind) {
  std::string key = fqn;
  for (int suffix = 1; constants.contains(key); ++suffix) key = fqn + "_" + std::to_string(suffix);
  // torch's placeholder names: p_ for parameters, b_ for buffers, c_ for lifted constants.
  std::string name = kind == InputKind::kParameter ? "p_"
                     : kind == InputKind::kBuffer  ? "b_"
                                                   : "c_";
  for (char c : key) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  GraphInput input{.kind = kind, .fqn = key, .persistent = true, .constant = {}};
  input.value = make_value(fresh_name(name), ValueKind::kTensor,
                           make_meta(tensor.dtype(), tensor.shape()), nullptr, 0);
  for (size_t i = 0; i < tensor.strides().size(); ++i)
    input.value->meta->strides[i] = {tensor.strides()[i], ""};
  input.value->meta->requires_grad = kind == InputKind::kParameter;
  constants[key] = {std::move(tensor), kind == InputKind::kParameter,
                    kind == InputKind::kParameter};
  const size_t place = place_of_new(kind);
  ++input_ranks_[rank_of(kind)];
  Value* value = input.value;
  inputs_.insert(inputs_.begin() + static_cast<std::ptrdiff_t>(place), std::move(input));
  for (size_t i = place; i < inputs_.size(); ++i) inputs_[i].value->index_ = static_cast<int>(i);
  return value;
}

// Before the first input of a later rank. Inputs are usually in order, and the inputs of later
// ranks are then a short tail.
size_t Graph::place_of_new(InputKind kind) const {
  const auto is_later = [&](const GraphInput& other) {
    return rank_of(other.kind) > rank_of(kind);
  };
  const size_t later =
      std::accumulate(input_ranks_.begin() + static_cast<std::ptrdiff_t>(rank_of(kind)) + 1,
                      input_ranks_.end(), size_t{0});
  const auto tail = inputs_.end() - static_cast<std::ptrdiff_t>(later);
  const auto place =
      std::all_of(tail, inputs_.end(), is_later) ? tail : std::ranges::find_if(inputs_, is_later);
  return static_cast<size_t>(place - inputs_.begin());
}

Node* Graph::add_node(std::string target, std::vector<NamedArgument> arguments, std::string name,
                      Node* before) {
  auto node = std::make_unique<Node>();
  // A node and its result may share a name, so only node names count here.
  const std::string unique = first_free(name, node_hints_, [&](const std::string& candidate) {
    return node_names_.contains(candidate);
  });
  node->name_ = unique;
  node->target_ = std::move(target);
  node->arguments_ = std::move(arguments);
  node->graph_ = this;
  Node* raw = node.get();
  raw->position_ =
      nodes_.insert(before == nullptr ? nodes_.end() : before->position_, std::move(node));
  node_names_[unique] = raw;
  order_.clear();
  relink(*raw);
  return raw;
}

Value* Graph::add_result(Node& node, std::string name, std::optional<TensorMeta> meta,
                         ValueKind kind) {
  Value* value = make_value(std::move(name), kind, std::move(meta), &node,
                            static_cast<int>(node.outputs().size()));
  node.results_.push_back({ResultSlot::Kind::kSingle, {value}, {}});
  return value;
}

std::vector<Value*> Graph::add_list_result(Node& node, std::vector<std::string> names,
                                           std::vector<std::optional<TensorMeta>> metas) {
  std::vector<Value*> values;
  const int first = static_cast<int>(node.outputs().size());
  for (size_t i = 0; i < names.size(); ++i)
    values.push_back(make_value(names[i], ValueKind::kTensor,
                                metas.empty() ? std::nullopt : metas[i], &node,
                                first + static_cast<int>(i)));
  node.results_.push_back({ResultSlot::Kind::kList, values, {}});
  return values;
}

void Graph::add_optional_list_result(Node& node,
                                     const std::vector<std::optional<std::string>>& names,
                                     std::vector<std::optional<TensorMeta>> metas) {
  std::vector<Value*> values;
  int index = static_cast<int>(node.outputs().size());
  for (size_t i = 0; i < names.size(); ++i)
    values.push_back(names[i] ? make_value(*names[i], ValueKind::kTensor,
                                           metas.empty() ? std::nullopt : metas[i], &node, index++)
                              : nullptr);
  node.results_.push_back({ResultSlot::Kind::kOptionalList, std::move(values), {}});
}

void Graph::add_literal_result(Node& node, Argument literal) {
  node.results_.push_back({ResultSlot::Kind::kLiteral, {}, std::move(literal)});
}

Node* Graph::insert(std::string target, std::vector<NamedArgument> arguments, std::string name,
                    std::optional<TensorMeta> meta, Node* before) {
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
  for (Value* value : node.outputs())
    OCTET_ASSERT(value->is_unused(), "%" + value->name() + " still has users");
  unlink(node);
  for (Value* value : node.outputs()) drop_value(value);
  const std::string name = node.name_;
  node_names_.erase(name);
  release_name(name);
  nodes_.erase(node.position_);
  order_.clear();
}

void Graph::erase_input(Value& value) { erase_inputs({&value}); }

void Graph::erase_inputs(const std::vector<Value*>& values) {
  const std::unordered_set<const Value*> dead(values.begin(), values.end());
  std::unordered_set<std::string> dropped;
  for (Value* value : values) {
    const GraphInput* input = find_input(value);
    OCTET_ASSERT(input != nullptr, "%" + value->name() + " is not an input");
    --input_ranks_[rank_of(input->kind)];
    if (!input->fqn.empty()) dropped.insert(input->fqn);
  }
  std::erase_if(inputs_, [&](const GraphInput& input) { return dead.contains(input.value); });
  for (Value* value : values) drop_value(value);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].value->index_ = static_cast<int>(i);
    dropped.erase(inputs_[i].fqn);
  }
  for (const std::string& fqn : dropped) constants.erase(fqn);
}

template <typename IsTaken>
std::string Graph::first_free(const std::string& base, SuffixHints& hints,
                              const IsTaken& is_taken) {
  int& suffix = hints[base];
  for (;; ++suffix) {
    std::string name = suffix == 0 ? base : base + "_" + std::to_string(suffix);
    if (!is_taken(name)) return name;
  }
}

void Graph::lower_hint(const std::string& freed, SuffixHints& hints) {
  const auto lower = [&](const std::string& base, int suffix) {
    const auto found = hints.find(base);
    if (found != hints.end()) found->second = std::min(found->second, suffix);
  };
  lower(freed, 0);
  const size_t last = freed.find_last_not_of("0123456789");
  if (last == std::string::npos || freed[last] != '_' || freed.size() - last - 1 > 9 ||
      last + 1 == freed.size())
    return;
  lower(freed.substr(0, last), std::stoi(freed.substr(last + 1)));
}

void Graph::release_name(const std::string& name) {
  lower_hint(name, fresh_hints_);
  lower_hint(name, node_hints_);
}

std::string Graph::fresh_name(std::string_view base) const {
  return first_free(std::string(base), fresh_hints_, [&](const std::string& name) {
    return values_.contains(name) || node_names_.contains(name);
  });
}

void Graph::rename(Node& node, std::string name) {
  if (name == node.name_) return;
  OCTET_ASSERT(!node_names_.contains(name), "node name " + name + " is taken");
  Value* same = node.output_or_null();
  if (same != nullptr && same->name_ == node.name_) rename(*same, name);
  node_names_.erase(node.name_);
  release_name(node.name_);
  node.name_ = name;
  node_names_[name] = &node;
}

void Graph::rename(Value& value, std::string name) {
  if (name == value.name_) return;
  OCTET_ASSERT(!values_.contains(name), "%" + name + " is taken");
  auto entry = values_.extract(value.name_);
  release_name(value.name_);
  value.name_ = name;
  entry.key() = std::move(name);
  values_.insert(std::move(entry));
}

void Graph::unlink(Node& node) {
  for (Value* value : node.inputs()) std::erase(value->users_, &node);
}

void Graph::relink(Node& node) {
  for (Value* value : node.inputs())
    if (std::ranges::find(value->users_, &node) == value->users_.end())
      value->users_.push_back(&node);
}

}  // namespace octet
