#include "core/passes/rewrites.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/graph/origin.h"
#include "core/ops/memory.h"
#include "core/ops/op_lookup.h"
#include "core/ops/op_schema.h"

namespace octet {
namespace {

// Python functions on numbers: the only targets outside of the dispatcher known to be pure.
constexpr std::array<std::string_view, 4> kPurePrefixes = {"_operator.", "math.", "torch.sym_",
                                                           "torch.utils._sympy."};

bool is_unused(const Node& node) {
  const std::vector<Value*> outputs = node.outputs();
  return std::ranges::all_of(outputs, [](const Value* value) { return value->is_unused(); });
}

int remove_dead_inputs(Graph& graph) {
  std::set<std::string> mutated;
  for (const GraphOutput& output : graph.outputs())
    if (output.kind == OutputKind::kBufferMutation || output.kind == OutputKind::kParameterMutation)
      mutated.insert(output.target);
  std::vector<Value*> dead;
  std::set<std::string> named;
  for (const GraphInput& input : graph.inputs()) {
    const bool has_data = input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer ||
                          input.kind == InputKind::kTensorConstant;
    if (has_data && input.value->is_unused() && !mutated.contains(input.fqn))
      dead.push_back(input.value);
    else if (!input.fqn.empty())
      named.insert(input.fqn);
  }
  graph.erase_inputs(dead);
  std::erase_if(graph.constants, [&](const auto& entry) {
    return !named.contains(entry.first) && !mutated.contains(entry.first);
  });
  return static_cast<int>(dead.size());
}

struct CallRow {
  std::string_view target;
  size_t body, first_operand;  // positions among the arguments
};

constexpr std::array<CallRow, 3> kCalls = {{{"higher_order.wrap_with_set_grad_enabled", 1, 2},
                                            {"higher_order.wrap_with_autocast", 4, 5},
                                            {"higher_order.invoke_subgraph", 0, 2}}};

// wrap_with_autocast(device, dtype, enabled, cache_enabled, body, *operands)
bool has_autocast(const Node& node) {
  if (node.target() != "higher_order.wrap_with_autocast" || node.arguments().size() < 5)
    return false;
  const bool* enabled = node.arguments()[2].value.find<bool>();
  return enabled == nullptr || *enabled;
}

const CallRow* find_row(const Node& node) {
  for (const CallRow& row : kCalls)
    if (node.target() == row.target) return &row;
  return nullptr;
}

Graph* find_body(const Node& node, const CallRow& row) {
  if (node.arguments().size() < row.first_operand) return nullptr;
  const Subgraph* body = node.arguments()[row.body].value.find<Subgraph>();
  return body == nullptr ? nullptr : body->graph.get();
}

using ValueMap = std::unordered_map<const Value*, Value*>;

// Maps the body's inputs to operands; false unless these are single values.
bool bind_operands(const Node& node, const CallRow& row, const Graph& body, ValueMap& map) {
  const std::vector<GraphInput>& inputs = body.inputs();
  if (node.arguments().size() != row.first_operand + inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Value* const* operand = node.arguments()[row.first_operand + i].value.find<Value*>();
    if (operand == nullptr || inputs[i].kind != InputKind::kUserInput) return false;
    map[inputs[i].value] = *operand;
  }
  return true;
}

bool inline_call(Graph& graph, Node& node, const CallRow& row) {
  Graph* body = find_body(node, row);
  ValueMap map;
  if (body == nullptr || has_autocast(node) || !bind_operands(node, row, *body, map)) return false;
  const std::vector<Value*> results = node.outputs();
  const std::vector<GraphOutput>& outputs = body->outputs();
  if (results.size() != outputs.size()) return false;
  for (const GraphOutput& output : outputs)
    if (output.value.find<Value*>() == nullptr) return false;
  for (const Node* inner : body->nodes()) copy_node(*inner, graph, map, &node);
  for (size_t i = 0; i < results.size(); ++i)
    graph.replace_uses(results[i], map.at(*outputs[i].value.find<Value*>()));
  graph.erase(node);
  return true;
}

struct ConvRow {
  std::string_view target;
  size_t spatial;  // dimensions
};

constexpr std::array<ConvRow, 3> kConvs = {
    {{"aten.conv1d.default", 1}, {"aten.conv2d.default", 2}, {"aten.conv3d.default", 3}}};

bool is_zero_pad(const Node& node) {
  if (node.is("aten.constant_pad_nd")) return node.float_or("value", 0.0) == 0.0;
  if (!node.is("aten.pad")) return false;
  const Argument* mode = node.find_argument("mode");
  const bool is_constant =
      mode == nullptr || mode->is_none() ||
      (mode->find<std::string>() != nullptr && *mode->find<std::string>() == "constant");
  return is_constant && node.float_or("value", 0.0) == 0.0;
}

// Padding per spatial dimension, first dimension first; empty when a convolution cannot have it.
std::vector<int64_t> symmetric_padding(const Node& pad, size_t spatial) {
  const Argument* argument = pad.find_argument("pad");
  const std::vector<int64_t>* pads =
      argument == nullptr ? nullptr : argument->find<std::vector<int64_t>>();
  if (pads == nullptr || pads->size() > 2 * spatial || pads->size() % 2 != 0) return {};
  std::vector<int64_t> result(spatial, 0);
  for (size_t i = 0; i < pads->size() / 2; ++i) {
    const int64_t low = (*pads)[2 * i];
    if (low != (*pads)[2 * i + 1] || low < 0) return {};
    result[spatial - 1 - i] = low;  // pad lists the last dimension first
  }
  return result;
}

bool fold_into(Graph& graph, Node& conv, size_t spatial) {
  Value* input = conv.find_input("input");
  Node* pad = input == nullptr ? nullptr : input->producer();
  if (pad == nullptr || !is_zero_pad(*pad) || !input->has_one_user()) return false;
  Value* source = pad->find_input("self");
  // Without a batch dimension the same list could pad the channels; the rank tells.
  if (source == nullptr || !source->meta || source->meta->sizes.size() < spatial + 1) return false;
  const std::vector<int64_t> extra = symmetric_padding(*pad, spatial);
  if (extra.empty()) return false;
  std::vector<int64_t> padding = conv.ints_or("padding", {0});
  padding.resize(spatial, padding.back());
  for (size_t i = 0; i < spatial; ++i) padding[i] += extra[i];
  // By keyword when the call omits it: a positional argument after a gap would be taken for the one
  // in the gap.
  conv.set_argument("padding", padding, ArgumentKind::kKeyword);
  conv.set_argument("input", source);
  absorb_before(conv, *pad);
  graph.erase(*pad);
  return true;
}

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

bool has_side_effects(const Node& node) {
  const OpSchema* schema = find_op_schema(node.target());
  if (schema == nullptr)
    return std::ranges::none_of(
        kPurePrefixes, [&](std::string_view prefix) { return node.target().starts_with(prefix); });
  if (schema->is_mutable() || schema->returns.empty()) return true;
  if (!written_values(node).empty()) return true;
  const std::optional<c10::OperatorHandle> handle = find_operator(node.target());
  return handle && handle->hasTag(at::Tag::nondeterministic_seeded);
}

int remove_dead(Graph& graph, DeadInputs inputs) {
  int removed = 0;
  std::vector<Node*> nodes = graph.nodes();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if (!is_unused(**it) || has_side_effects(**it)) continue;
    graph.erase(**it);
    ++removed;
  }
  if (inputs == DeadInputs::kRemove) removed += remove_dead_inputs(graph);
  return removed;
}

int inline_bodies(Graph& graph) {
  int calls = 0;
  for (bool found = true; found;) {  // bodies may have calls in them
    found = false;
    for (Node* node : graph.nodes()) {
      const CallRow* row = find_row(*node);
      if (row == nullptr || !inline_call(graph, *node, *row)) continue;
      ++calls;
      found = true;
    }
  }
  return calls;
}

int fold_pad(Graph& graph) {
  int folds = 0;
  for (Node* node : graph.nodes()) {
    const auto row = std::ranges::find_if(
        kConvs, [&](const ConvRow& conv) { return conv.target == node->target(); });
    if (row != kConvs.end() && fold_into(graph, *node, row->spatial)) ++folds;
  }
  return folds;
}

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
      const bool is_only = std::ranges::count_if(arguments, [&](const NamedArgument& other) {
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
