#include "annotate/graph/control_flow.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/graph/constant_subgraph.h"
#include "core/base/error.h"

namespace octet {
namespace {

// A call whose last argument lists loop-invariant operands, which are the last inputs of each of
// its bodies.
struct CallForm {
  std::string_view target;
  size_t first_body;    // which argument
  size_t body_count;    // number of consecutive bodies
  size_t first_scope;   // first body that computes (the condition of a loop does not)
  size_t operands;      // which argument
  bool peer_quantizes;  // torchao quantizes it
};
constexpr std::array<CallForm, 4> kForms = {{
    {"higher_order.cond", 1, 2, 1, 3, false},
    {"higher_order.while_loop", 0, 2, 1, 3, true},
    {"higher_order.scan", 0, 1, 0, 3, true},
    {"higher_order.map_impl", 0, 1, 0, 2, false},
}};

const CallForm* find_form(const Node& node) {
  const auto found = std::ranges::find_if(
      kForms, [&](const CallForm& form) { return form.target == node.target(); });
  if (found == kForms.end() || node.arguments().size() != found->operands + 1) return nullptr;
  return &*found;
}

Graph* find_body(const Node& node, size_t argument) {
  const Subgraph* subgraph = argument < node.arguments().size()
                                 ? node.arguments()[argument].value.find<Subgraph>()
                                 : nullptr;
  return subgraph == nullptr ? nullptr : subgraph->graph.get();
}

std::vector<Graph*> bodies_of(const Node& node, const CallForm& form) {
  std::vector<Graph*> bodies;
  for (size_t i = 0; i < form.body_count; ++i)
    if (Graph* body = find_body(node, form.first_body + i)) bodies.push_back(body);
  return bodies;
}

// Null unless the operands are plain values.
std::optional<std::vector<Value*>> find_operands(const Node& node, const CallForm& form) {
  const Argument& argument = node.arguments()[form.operands].value;
  if (const std::vector<Value*>* values = argument.find<std::vector<Value*>>()) return *values;
  const std::vector<int64_t>* empty = argument.find<std::vector<int64_t>>();
  if (argument.is_none() || (empty != nullptr && empty->empty())) return std::vector<Value*>();
  return std::nullopt;
}

bool can_edit(const Node& node, const CallForm& form) {
  const std::optional<std::vector<Value*>> operands = find_operands(node, form);
  const std::vector<Graph*> bodies = bodies_of(node, form);
  return operands && bodies.size() == form.body_count &&
         std::ranges::all_of(
             bodies, [&](const Graph* body) { return body->inputs().size() >= operands->size(); });
}

void set_operands(Node& node, const CallForm& form, std::vector<Value*> operands) {
  // arguments without names: sets the last one
  node.set_argument(node.arguments().back().name, std::move(operands));
  OCTET_ASSERT(
      node.arguments().size() == form.operands + 1 && find_body(node, form.first_body) != nullptr,
      node.name());
}

bool is_condition(const Node& node, size_t argument) {
  const CallForm* form = find_form(node);
  return form != nullptr && argument < form->first_scope;
}

// Why a body stays float; "": it is quantized.
std::string objection(const Node& node, size_t argument, Compat compat) {
  const CallForm* form = find_form(node);
  if (form == nullptr) return fmt::format("bodies of {} are not quantized", node.target());
  if (compat == Compat::kTorchao && !form->peer_quantizes)
    return fmt::format("bodies of {} are not quantized (compat torchao)", node.target());
  if (is_condition(node, argument)) return "it decides whether a loop continues";
  if (!can_edit(node, *form))
    return fmt::format("the operands of {} are not a list of tensors", node.target());
  return {};
}

void collect_bodies(const Graph& graph, const Body& enclosing, Compat compat,
                    std::vector<Body>& bodies) {
  for (const Node* node : graph.nodes())
    for (size_t i = 0; i < node->arguments().size(); ++i) {
      Graph* inner = find_body(*node, i);
      if (inner == nullptr) continue;
      const std::string& name = node->arguments()[i].value.find<Subgraph>()->name;
      const Body body{inner, enclosing.path.empty() ? name : enclosing.path + "." + name, node,
                      enclosing.reason.empty() ? objection(*node, i, compat) : enclosing.reason};
      bodies.push_back(body);
      collect_bodies(*inner, body, compat, bodies);
    }
}

bool is_same(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.raw() == b.raw() && a.dtype() == b.dtype() &&
         a.shape() == b.shape() && a.strides() == b.strides();
}

// Replaces `input` of `body` by the constant `outer`, under that input's name.
void move_in(const Graph& graph, const Value* outer, Graph& body, Value* input) {
  const GraphInput& from = *graph.find_input(outer);
  const std::string name = input->name();
  const std::optional<TensorMeta> meta = input->meta;
  const Constant& constant = graph.constants.at(from.fqn);
  Value* inner = body.add_constant(from.fqn, constant.tensor, from.kind);
  body.constants.at(body.find_input(inner)->fqn) = constant;
  body.replace_uses(input, inner);
  body.erase_input(*input);
  body.rename(*inner, name);
  if (meta) inner->meta = meta;
}

// Moves the constants of one call.
int move_in(Graph& graph, Node& node, const CallForm& form,
            const std::unordered_set<const Value*>& constants) {
  const std::vector<Value*> operands = *find_operands(node, form);
  const std::vector<Graph*> bodies = bodies_of(node, form);
  std::vector<std::vector<GraphInput>> inputs;  // inputs of each body before any move
  for (const Graph* body : bodies) inputs.push_back(body->inputs());
  std::vector<Value*> kept;
  for (size_t k = 0; k < operands.size(); ++k) {
    if (graph.find_constant(operands[k]) == nullptr || !constants.contains(operands[k])) {
      kept.push_back(operands[k]);
      continue;
    }
    for (size_t b = 0; b < bodies.size(); ++b)
      move_in(graph, operands[k], *bodies[b],
              inputs[b][inputs[b].size() - operands.size() + k].value);
  }
  const size_t moved = operands.size() - kept.size();
  if (moved > 0) set_operands(node, form, std::move(kept));
  return static_cast<int>(moved);
}

// A constant that some bodies of a call have, with its input in each of them (null: not used).
struct Lifted {
  GraphInput input;
  Constant constant;
  std::vector<Value*> inner;
};

std::vector<Lifted> lifted_constants(const std::vector<Graph*>& bodies) {
  std::vector<Lifted> result;
  for (size_t b = 0; b < bodies.size(); ++b) {
    const std::vector<GraphInput> inputs = bodies[b]->inputs();
    for (const GraphInput& input : inputs) {
      if (!is_stored(input)) continue;
      if (input.value->is_unused()) {
        bodies[b]->erase_input(*input.value);
        continue;
      }
      const Constant& constant = bodies[b]->constants.at(input.fqn);
      const auto same = std::ranges::find_if(result, [&](const Lifted& other) {
        return other.inner[b] == nullptr && is_same(other.constant.tensor, constant.tensor);
      });
      if (same != result.end()) {
        same->inner[b] = input.value;
      } else {
        result.push_back({input, constant, std::vector<Value*>(bodies.size())});
        result.back().inner[b] = input.value;
      }
    }
    bodies[b]->constants.clear();
  }
  return result;
}

// The graph's input with that tensor; creates it when there is none.
Value* outer_constant(Graph& graph, const Lifted& lifted) {
  for (const GraphInput& input : graph.inputs())
    if (is_stored(input) && input.kind == lifted.input.kind &&
        is_same(graph.constants.at(input.fqn).tensor, lifted.constant.tensor))
      return input.value;
  Value* value = graph.add_constant(lifted.input.fqn, lifted.constant.tensor, lifted.input.kind);
  graph.constants.at(graph.find_input(value)->fqn) = lifted.constant;
  return value;
}

int move_out(Graph& graph, Node& node, const CallForm& form) {
  const std::vector<Graph*> bodies = bodies_of(node, form);
  std::vector<Value*> operands = *find_operands(node, form);
  const std::vector<Lifted> all = lifted_constants(bodies);
  for (const Lifted& lifted : all) {
    operands.push_back(outer_constant(graph, lifted));
    const auto some =
        std::ranges::find_if(lifted.inner, [](const Value* value) { return value != nullptr; });
    const std::string name = (*some)->name();
    const std::optional<TensorMeta> meta = (*some)->meta;
    for (size_t b = 0; b < bodies.size(); ++b) {
      Value* old = lifted.inner[b];
      Value* input = bodies[b]->add_input(bodies[b]->fresh_name(name), ValueKind::kTensor, meta);
      if (old == nullptr) continue;
      const std::string own_name = old->name();
      bodies[b]->replace_uses(old, input);
      bodies[b]->erase_input(*old);
      bodies[b]->rename(*input, own_name);
    }
  }
  if (!all.empty()) set_operands(node, form, std::move(operands));
  return static_cast<int>(all.size());
}

}  // namespace

bool is_stored(const GraphInput& input) {
  return input.kind == InputKind::kParameter || input.kind == InputKind::kBuffer ||
         input.kind == InputKind::kTensorConstant;
}

std::vector<Body> bodies_within(const Graph& graph, Compat compat) {
  std::vector<Body> bodies;
  collect_bodies(graph, {}, compat, bodies);
  return bodies;
}

void report_float_bodies(const Graph& graph, Compat compat, Report& report) {
  std::unordered_set<const Graph*> float_graphs;
  std::unordered_set<const Node*> reported;
  for (const Body& body : bodies_within(graph, compat)) {
    if (body.reason.empty()) continue;
    float_graphs.insert(body.graph);
    const bool is_asked = find_form(*body.call) != nullptr &&
                          find_body(*body.call, 0) == body.graph && is_condition(*body.call, 0);
    if (is_asked || float_graphs.contains(&body.call->graph()) ||
        !reported.insert(body.call).second)
      continue;
    report.add({"prepare", body.call->name(), body.call->target(), "", body.reason});
  }
}

void inherit_module(const Body& body) {
  constexpr const char* kKey = "nn_module_stack";
  const auto found = body.call->metadata.find(kKey);
  if (found == body.call->metadata.end()) return;
  for (Node* node : body.graph->nodes()) node->metadata.try_emplace(kKey, found->second);
}

void report_on_body(const Body& body, Report& report, const std::function<void(Report&)>& work) {
  const std::string prefix = body.path + ".";
  Report own;
  for (const ReportEntry& entry : report.entries()) {
    if (!entry.node.starts_with(prefix)) continue;
    ReportEntry known = entry;
    known.node = entry.node.substr(prefix.size());
    own.add(std::move(known));
  }
  const size_t known_count = own.entries().size();
  work(own);
  for (size_t i = known_count; i < own.entries().size(); ++i) {
    ReportEntry entry = own.entries()[i];
    entry.node = prefix + entry.node;
    report.add(std::move(entry));
  }
}

int move_constants_into_bodies(Graph& graph) {
  int moved = 0;
  std::unordered_set<const Value*> constants;
  for (Node* node : graph.nodes()) {
    const CallForm* form = find_form(*node);
    if (form == nullptr || !can_edit(*node, *form)) continue;
    if (constants.empty()) constants = find_constant_values(graph);
    moved += move_in(graph, *node, *form, constants);
    for (Graph* body : bodies_of(*node, *form)) moved += move_constants_into_bodies(*body);
  }
  return moved;
}

int move_constants_out_of_bodies(Graph& graph) {
  int moved = 0;
  for (Node* node : graph.nodes()) {
    const CallForm* form = find_form(*node);
    if (form == nullptr || !can_edit(*node, *form)) continue;
    for (Graph* body : bodies_of(*node, *form)) moved += move_constants_out_of_bodies(*body);
    moved += move_out(graph, *node, *form);
  }
  return moved;
}

}  // namespace octet
