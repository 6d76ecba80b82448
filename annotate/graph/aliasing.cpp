// Finds in-place writes, and decides where a copy may replace a value, as quantize and dequantize
// do:
//
//   %x = relu(%a)
//   %y = conv2d(%x, ...)      may read a copy made right after relu
//   add_(%x, 1)
//   %z = conv2d(%x, ...)      may not: the copy lacks the 1 that add_ adds
#include "annotate/graph/aliasing.h"

#include <algorithm>

#include "annotate/graph/qdq_nodes.h"

namespace octet {

namespace {

template <typename T>
bool contains(const std::vector<T>& list, const T& element) {
  return std::ranges::find(list, element) != list.end();
}

}  // namespace

Writes::Writes(const Graph& graph) : graph_(graph) {
  std::vector<const Value*> written;
  for (const Node* node : graph.nodes())
    for (const Value* value : written_values(*node)) written.push_back(value);
  if (written.empty()) return;
  find_roots();
  for (const Value* value : written)
    for (const Value* root : roots_of(*value)) uses_.try_emplace(root);
  find_uses();
}

// In graph order, so that the roots of a node's inputs are known.
void Writes::find_roots() {
  for (const Node* node : graph_.nodes()) {
    order_[node] = order_.size();
    std::vector<const Value*> roots;
    for (const Value* input : aliased_inputs(*node))
      for (const Value* root : roots_of(*input))
        if (!contains(roots, root)) roots.push_back(root);
    if (roots.empty()) continue;
    for (const Value* output : node->outputs()) roots_[output] = roots;
  }
}

void Writes::find_uses() {
  for (const Node* node : graph_.nodes()) {
    const std::vector<const Value*> written = written_values(*node);
    const std::vector<const Value*> passed_on = aliased_inputs(*node);
    for (const Value* input : node->inputs())
      add_use({node, input, contains(written, input), contains(passed_on, input)});
  }
  for (const GraphInput& input : graph_.inputs())
    if (input.kind != InputKind::kUserInput) add_use({nullptr, input.value, false, false});
  for (const GraphOutput& output : graph_.outputs())
    if (const Value* value = output.value.value_or_null()) add_use({nullptr, value, false, false});
}

void Writes::add_use(const Use& use) {
  for (const Value* root : roots_of(*use.value))
    if (const auto found = uses_.find(root); found != uses_.end()) found->second.push_back(use);
}

// Nodes added later are observer nodes, which pass on their input.
std::vector<const Value*> Writes::roots_of(const Value& value) const {
  const Value* known = through_observers(&value);
  const auto found = roots_.find(known);
  return found == roots_.end() ? std::vector<const Value*>{known} : found->second;
}

bool Writes::allow_copy(const Value& value, const std::vector<const Node*>& readers,
                        const Node* from) const {
  if (uses_.empty()) return true;
  const size_t start = from == nullptr ? 0 : order_.at(from) + 1;
  const std::vector<const Value*> roots = roots_of(value);
  return std::ranges::all_of(roots, [&](const Value* root) {
    return !uses_.contains(root) || allow_copy_of(root, value, readers, start);
  });
}

bool Writes::allow_copy_of(const Value* root, const Value& value,
                           const std::vector<const Node*>& readers, size_t start) const {
  struct Memory {
    std::unordered_set<const Value*> values;
    const Node* writer = nullptr;  // first writer since the copy
  };
  Memory original{{root}}, copy;
  for (const Use& use : uses_.at(root)) {
    const bool is_moved = use.value == &value && contains(readers, use.node);
    const bool is_in_copy = is_moved || copy.values.contains(use.value);
    const bool is_in_original = !is_moved && original.values.contains(use.value);
    const auto misses = [&](const Memory& other) {
      return other.writer != nullptr && other.writer != use.node;
    };
    if ((is_in_copy && misses(original)) || (is_in_original && misses(copy))) return false;
    const auto go_on = [&](Memory& memory) {
      if (use.is_write && memory.writer == nullptr && order_.at(use.node) >= start)
        memory.writer = use.node;
      if (!use.is_passed_on) return;
      const std::vector<Value*> results = use.node->outputs();
      memory.values.insert(results.begin(), results.end());
    };
    if (is_in_original) go_on(original);
    if (is_in_copy) go_on(copy);
  }
  return true;
}

std::unordered_set<const Value*> overwritten_values(const Graph& graph) {
  std::unordered_set<const Value*> written, overwritten;
  for (const Node* node : graph.nodes())
    for (const Value* value : written_values(*node))
      for (const Value* root : memory_roots({value})) written.insert(root);
  if (written.empty()) return {};
  const auto look_at = [&](const Value* value) {
    for (const Value* root : memory_roots({value}))
      if (written.contains(root)) overwritten.insert(value);
  };
  for (const GraphInput& input : graph.inputs()) look_at(input.value);
  for (const Node* node : graph.nodes())
    for (const Value* value : node->outputs()) look_at(value);
  return overwritten;
}

}  // namespace octet
