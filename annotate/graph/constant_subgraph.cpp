#include "annotate/graph/constant_subgraph.h"

#include <algorithm>

#include "annotate/graph/aliasing.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/passes/rewrites.h"

namespace octet {
namespace {

// Whether the op computes a float tensor from a stored one.
bool is_decoding(const Node& node) {
  return is_any_dequantize(&node) ||
         node.target() == "quantized_decomposed.convert_element_type.no_fuse";
}

// Whether the op detaches the tensor from autograd in place and keeps its data.
bool is_detach(const Node& node) { return node.target() == "aten.detach_.default"; }

bool is_pure(const Node& node) {
  return is_observer_node(&node) || !has_side_effects(node) || is_detach(node);
}

struct Needed {
  std::vector<const Value*> roots;  // graph inputs
  std::vector<const Node*> nodes;   // producers before their users
};

Needed collect_needed(const std::vector<const Value*>& wanted) {
  struct Visit {
    const Value* value;
    bool is_done;  // its producer's inputs were visited
  };
  Needed needed;
  std::unordered_set<const Value*> seen;
  std::unordered_set<const Node*> listed;
  std::vector<Visit> open;
  for (const Value* value : wanted) open.push_back({value, false});
  while (!open.empty()) {
    const Visit visit = open.back();
    open.pop_back();
    const Node* producer = visit.value->producer();
    if (visit.is_done) {
      if (listed.insert(producer).second) needed.nodes.push_back(producer);
    } else if (seen.insert(visit.value).second) {
      if (producer == nullptr) {
        needed.roots.push_back(visit.value);
        continue;
      }
      open.push_back({visit.value, true});
      for (const Value* input : producer->inputs()) open.push_back({input, false});
    }
  }
  return needed;
}

// `of_nothing`: ops without inputs count too. `decodes`: so do those that decode stored weights.
std::unordered_set<const Value*> find_computable(const Graph& graph, bool of_nothing,
                                                 bool decodes) {
  std::unordered_set<const Value*> constants;
  const std::unordered_set<const Value*> written = written_constants(graph);
  const std::unordered_set<const Value*> overwritten = overwritten_values(graph);
  for (const GraphInput& input : graph.inputs())
    if (input.value != nullptr && graph.find_constant(input.value) != nullptr &&
        !written.contains(input.value))
      constants.insert(input.value);
  for (const Node* node : graph.nodes()) {
    const std::vector<Value*> inputs = node->inputs();
    const bool all =
        std::ranges::all_of(inputs, [&](const Value* input) { return constants.contains(input); });
    if ((inputs.empty() && !of_nothing) || !all || !is_pure(*node)) continue;
    if (is_decoding(*node) && !decodes) continue;
    for (const Value* output : node->outputs())
      if (!overwritten.contains(output)) constants.insert(output);
  }
  return constants;
}

}  // namespace

std::unordered_set<const Value*> find_constant_values(const Graph& graph) {
  return find_computable(graph, false, false);
}

std::unordered_set<const Value*> find_input_free_values(const Graph& graph) {
  return find_computable(graph, true, false);
}

std::unordered_set<const Value*> find_fixed_values(const Graph& graph) {
  return find_computable(graph, true, true);
}

bool ConstantValues::contains(const Value* value) {
  if (!values_) values_ = find_constant_values(graph_);
  return values_->contains(value);
}

Graph extract_constant_part(const Graph& graph, const std::vector<const Value*>& wanted) {
  const auto [roots, needed] = collect_needed(wanted);
  Graph part;
  std::unordered_map<const Value*, Value*> mapping;
  for (const Value* root : roots) {
    const Tensor* tensor = graph.find_constant(root);
    OCTET_ASSERT(tensor != nullptr, "%" + root->name() + " is not a constant");
    mapping[root] = part.add_constant(graph.find_input(root)->fqn, *tensor, InputKind::kBuffer);
  }
  for (const Node* node : needed) copy_node(*node, part, mapping);
  for (const Value* value : wanted) part.add_output({.value = mapping.at(value), .target = {}});
  return part;
}

}  // namespace octet
