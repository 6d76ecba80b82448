#include "annotate/accuracy/batch_states.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/ops/memory.h"

namespace octet {
namespace {

constexpr const char* kTarget = "octet.batch_state.default";

struct StateUse {
  size_t first = std::numeric_limits<size_t>::max();  // positions of nodes
  size_t last_write = 0;
};

// The graph inputs that nodes write to.
std::unordered_set<const Value*> written_inputs(const std::vector<Node*>& nodes) {
  std::vector<const Value*> written;
  for (const Node* node : nodes)
    for (const Value* value : written_values(*node)) written.push_back(value);
  std::unordered_set<const Value*> roots = memory_roots(std::move(written));
  std::erase_if(roots, [](const Value* root) { return root->producer() != nullptr; });
  return roots;
}

std::unordered_map<const Value*, StateUse> find_uses(const std::vector<Node*>& nodes) {
  const std::unordered_set<const Value*> states = written_inputs(nodes);
  std::unordered_map<const Value*, StateUse> uses;
  if (states.empty()) return uses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<Value*> inputs = nodes[i]->inputs();
    for (const Value* root : memory_roots({inputs.begin(), inputs.end()}))
      if (states.contains(root)) uses[root].first = std::min(uses[root].first, i);
    for (const Value* root : memory_roots(written_values(*nodes[i])))
      if (states.contains(root)) uses[root].last_write = i;
  }
  return uses;
}

bool is_stop(const Node& node) { return is_observer_node(&node) || find_operands(node) != nullptr; }

// Whether the node overwrites all of the state, so that what was there before is never read.
bool overwrites(const Node& node, const Value* state) {
  return (node.is("aten.copy_") || node.is("aten.fill_") || node.is("aten.zero_")) &&
         node.inputs().front() == state;
}

}  // namespace

Verdict can_separate_states(const Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  for (const auto& [state, use] : find_uses(nodes)) {
    if (graph.find_constant(state) == nullptr)
      return Verdict::refuse("the program writes to its input %" + state->name());
    if (overwrites(*nodes[use.first], state)) continue;
    for (size_t i = use.first; i < use.last_write; ++i)
      if (is_stop(*nodes[i]))
        return Verdict::refuse("the program uses its state %" + state->name() + " before or at %" +
                               nodes[i]->name() + " and writes to it after");
  }
  return Verdict::accept();
}

void separate_states(Graph& graph) {
  const std::vector<Node*> nodes = graph.nodes();
  const std::unordered_map<const Value*, StateUse> uses = find_uses(nodes);
  const std::vector<GraphInput> inputs = graph.inputs();
  for (const GraphInput& input : inputs) {
    const auto use = uses.find(input.value);
    if (use == uses.end()) continue;
    Node* node = graph.insert(kTarget, {}, input.value->name() + "_state", input.value->meta,
                              nodes[use->second.first]);
    graph.replace_uses(input.value, node->output());
    node->set_argument("self", input.value);
  }
}

void BatchStates::begin(size_t batch) {
  if (batch == 0) last_.clear();
}

std::pair<std::string, Handler> BatchStates::handler() {
  return {kTarget, [this](const Node& node, const std::vector<c10::IValue>& arguments) {
            at::Tensor& last = last_[node.name()];
            last = (last.defined() ? last : arguments.at(0).toTensor()).clone();
            return std::vector<c10::IValue>{last};
          }};
}

}  // namespace octet
