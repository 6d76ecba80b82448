// The nodes are copied into a graph of their own, which the interpreter runs.
#include "core/passes/fold_input_free.h"

#include <algorithm>
#include <set>

#include <ATen/core/Tensor.h>

#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/remove_dead.h"

namespace octet {
namespace {

bool is_quantization(const Node& node) {
  static const char* const kPrefixes[] = {"quantized_decomposed.", "torchao.", "quantized."};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return node.target().starts_with(prefix); });
}

// Plain tensors of known shapes, one a result slot.
bool gives_tensors(const Node& node) {
  return !node.results().empty() &&
         std::all_of(node.results().begin(), node.results().end(), [](const ResultSlot& slot) {
           return slot.kind == ResultSlot::Kind::kSingle &&
                  slot.values[0]->kind() == ValueKind::kTensor && slot.values[0]->meta &&
                  slot.values[0]->meta->is_static();
         });
}

bool is_pure_aten(const Node& node) {
  return node.target().starts_with("aten.") && !node.is("aten.empty") && !is_quantization(node) &&
         !has_side_effects(node) && gives_tensors(node);
}

std::set<const Value*> fixed_constants(const Graph& graph) {
  std::set<std::string> written;
  for (const GraphOutput& output : graph.outputs())
    if (output.kind != OutputKind::kUserOutput) written.insert(output.target);
  std::set<const Value*> fixed;
  for (const GraphInput& input : graph.inputs())
    if (graph.find_constant(input.value) != nullptr && !written.contains(input.fqn))
      fixed.insert(input.value);
  return fixed;
}

std::vector<Value*> values_of(const Node& node) {
  std::vector<Value*> values;
  for (const NamedArgument& argument : node.arguments())
    for_each_value(argument.value, [&](Value* value) { values.push_back(value); });
  return values;
}

class Folding {
 public:
  explicit Folding(Graph& graph) : graph_(graph) {}

  int run() {
    choose();
    if (nodes_.empty() || is_written_to()) return 0;
    std::vector<Value*> results = read_by_others();
    const std::vector<c10::IValue> tensors = compute(results);
    for (size_t i = 0; i < results.size(); ++i) {
      const Tensor tensor = from_aten(tensors[i].toTensor().contiguous());
      graph_.replace_uses(
          results[i], graph_.add_constant(results[i]->name(), tensor, InputKind::kTensorConstant));
    }
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) graph_.erase(**node);
    return static_cast<int>(nodes_.size());
  }

 private:
  void choose() {
    const std::set<const Value*> fixed = fixed_constants(graph_);
    for (Node* node : graph_.nodes()) {
      if (!is_pure_aten(*node)) continue;
      const std::vector<Value*> values = values_of(*node);
      const auto is_folded = [&](const Value* value) { return folded_.contains(value); };
      const bool depends_on_nothing =
          std::all_of(values.begin(), values.end(),
                      [&](const Value* v) { return is_folded(v) || fixed.contains(v); });
      if (!depends_on_nothing ||
          (!values.empty() && std::none_of(values.begin(), values.end(), is_folded)))
        continue;
      nodes_.push_back(node);
      for (const Value* value : node->outputs()) folded_.insert(value);
    }
  }

  bool is_written_to() const {
    return std::any_of(folded_.begin(), folded_.end(), [](const Value* value) {
      return std::any_of(value->users().begin(), value->users().end(), [](const Node* user) {
        return has_side_effects(*user) && !user->outputs().empty();
      });
    });
  }

  std::vector<Value*> read_by_others() const {
    const std::set<const Node*> inside(nodes_.begin(), nodes_.end());
    std::vector<Value*> results;
    for (const Node* node : nodes_)
      for (Value* value : node->outputs())
        if (value->is_output() ||
            std::any_of(value->users().begin(), value->users().end(),
                        [&](const Node* user) { return !inside.contains(user); }))
          results.push_back(value);
    return results;
  }

  std::vector<c10::IValue> compute(const std::vector<Value*>& results) const {
    Graph part;
    std::map<Value*, Value*> copies;
    const auto copy_of = [&](Value* value) {
      Value*& copy = copies[value];
      if (copy == nullptr)
        copy = part.add_constant(value->name(), *graph_.find_constant(value),
                                 InputKind::kTensorConstant);
      return copy;
    };
    for (const Node* node : nodes_) {
      std::vector<NamedArgument> arguments = node->arguments();
      for (NamedArgument& argument : arguments) rewrite_values(argument.value, copy_of);
      Node* twin = part.add_node(node->target(), std::move(arguments), node->name());
      for (Value* value : node->outputs())
        copies[value] = part.add_result(*twin, value->name(), value->meta);
    }
    for (Value* value : results) part.add_output({copies.at(value), OutputKind::kUserOutput, ""});
    return Interpreter(part).run({});
  }

  Graph& graph_;
  std::vector<Node*> nodes_;
  std::set<const Value*> folded_;
};

}  // namespace

int fold_input_free(Graph& graph) { return Folding(graph).run(); }

}  // namespace octet
