// The nodes are copied into a graph of their own, which the interpreter runs.
#include "core/passes/fold_input_free.h"

#include <algorithm>
#include <set>

#include <ATen/core/Tensor.h>

#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/ops/memory.h"
#include "core/passes/remove_dead.h"

namespace octet {
namespace {

bool is_quantization(const Node& node) {
  static const char* const kPrefixes[] = {"quantized_decomposed.", "torchao.", "quantized."};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](const char* prefix) { return node.target().starts_with(prefix); });
}

// Of integers with the scales of a tensor, a channel or a block. (Those of rows only computed
// activations have.)
bool is_dequantization(const Node& node) {
  return is_quantization(node) && node.target().find("dequantize") != std::string::npos &&
         !node.is("quantized_decomposed.dequantize_per_token");
}

// Quantizes, dequantizes, or chooses the scale for that.
bool is_conversion(const Node& node) {
  return is_quantization(node) && (node.target().find("quantize_") != std::string::npos ||
                                   node.target().find("choose_qparams") != std::string::npos);
}

// Gives its input's elements, in another shape or order.
bool only_moves(const Node& node) {
  static const char* const kCopies[] = {"aten.clone", "aten.contiguous", "aten.cat", "aten.stack",
                                        "aten.reshape"};
  return !aliased_inputs(node).empty() ||
         std::any_of(std::begin(kCopies), std::end(kCopies),
                     [&](const char* name) { return node.is(name); });
}

// Plain tensors of known shapes.
bool gives_tensors(const Node& node) {
  const auto is_known = [](const Value* value) {
    return value != nullptr && value->kind() == ValueKind::kTensor && value->meta &&
           value->meta->is_static();
  };
  return !node.results().empty() &&
         std::all_of(node.results().begin(), node.results().end(), [&](const ResultSlot& slot) {
           const bool is_tensors =
               slot.kind == ResultSlot::Kind::kSingle || slot.kind == ResultSlot::Kind::kList;
           return is_tensors && std::all_of(slot.values.begin(), slot.values.end(), is_known);
         });
}

bool can_be_folded(const Node& node) {
  return node.target().starts_with("aten.") && !node.is("aten.empty") && !is_quantization(node) &&
         (!has_side_effects(node) || is_in_place(node)) && gives_tensors(node);
}

std::set<const Value*> fixed_constants(const Graph& graph) {
  const std::unordered_set<const Value*> written = written_constants(graph);
  std::set<const Value*> fixed;
  for (const GraphInput& input : graph.inputs())
    if (graph.find_constant(input.value) != nullptr && !written.contains(input.value))
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
  Folding(Graph& graph, FoldFrom from) : graph_(graph), from_(from) {}

  int run() {
    do choose();
    while (ban_written() || ban_dequantized());
    if (nodes_.empty()) return 0;
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
    nodes_.clear();
    folded_.clear();
    dequantized_.clear();
    for (Node* node : graph_.nodes()) {
      const bool converts =
          from_ == FoldFrom::kConstants && is_conversion(*node) && gives_tensors(*node);
      if (!converts && !can_be_folded(*node)) continue;
      const std::vector<Value*> values = values_of(*node);
      const auto is_folded = [&](const Value* value) { return folded_.contains(value); };
      const bool depends_on_nothing =
          std::all_of(values.begin(), values.end(), [&](const Value* value) {
            return is_folded(value) || (fixed.contains(value) && !banned_.contains(value));
          });
      const std::vector<Value*> results = node->outputs();
      const bool is_banned = std::any_of(results.begin(), results.end(), [&](const Value* value) {
        return banned_.contains(value);
      });
      if (!depends_on_nothing || is_banned) continue;
      if (is_in_place(*node) && !is_folded(values.front())) continue;
      const bool is_of_constants =
          !values.empty() && std::none_of(values.begin(), values.end(), is_folded);
      if (is_of_constants && (from_ == FoldFrom::kNothing || (!converts && grows(*node, values))))
        continue;
      nodes_.push_back(node);
      folded_.insert(results.begin(), results.end());
      const bool is_dequantized =
          is_dequantization(*node) ||
          (only_moves(*node) && std::any_of(values.begin(), values.end(), [&](const Value* value) {
             return dequantized_.contains(value);
           }));
      if (is_dequantized) dequantized_.insert(results.begin(), results.end());
    }
  }

  // What a value may share memory with, back to what is not folded or has memory of its own.
  std::vector<const Value*> memory_of(const Value* value) const {
    std::vector<const Value*> chain = {value};
    while (folded_.contains(value)) {
      const std::vector<const Value*> aliased = aliased_inputs(*value->producer());
      if (aliased.empty()) break;
      value = aliased.front();
      chain.push_back(value);
    }
    return chain;
  }

  bool is_chosen(const Node* node) const {
    const std::vector<Value*> results = node->outputs();
    return !results.empty() && folded_.contains(results.front());
  }

  // Reads memory of `root` that the fold holds, before the writer runs.
  bool is_read_before(const Node& writer, const Value* root) const {
    return std::any_of(folded_.begin(), folded_.end(), [&](const Value* value) {
      return memory_of(value).back() == root &&
             std::any_of(value->users().begin(), value->users().end(), [&](const Node* user) {
               return !is_chosen(user) && graph_.is_before(*user, writer);
             });
    });
  }

  // Values that something outside of the fold writes to, and those of which somebody outside reads
  // what they were before a write, stay out of it. True when there were any.
  bool ban_written() {
    const size_t before = banned_.size();
    for (const Node* node : graph_.nodes()) {
      if (!has_side_effects(*node) || node->outputs().empty() || node->inputs().empty()) continue;
      const std::vector<const Value*> memory = memory_of(node->inputs().front());
      const bool is_inside = is_chosen(node);
      if (!is_inside || is_read_before(*node, memory.back()))
        banned_.insert(memory.begin(), memory.end());
    }
    return banned_.size() != before;
  }

  // Integers that others read as reals stay integers. True when there were any.
  bool ban_dequantized() {
    const size_t before = banned_.size();
    for (const Value* value : read_by_others())
      if (dequantized_.contains(value)) banned_.insert(value);
    return banned_.size() != before;
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
      for (const ResultSlot& slot : node->results()) {
        if (slot.kind == ResultSlot::Kind::kSingle) {
          Value* value = slot.values[0];
          copies[value] = part.add_result(*twin, value->name(), value->meta);
          continue;
        }
        std::vector<std::string> names;
        std::vector<std::optional<TensorMeta>> metas;
        for (const Value* value : slot.values) {
          names.push_back(value->name());
          metas.push_back(value->meta);
        }
        const std::vector<Value*> list = part.add_list_result(*twin, names, metas);
        for (size_t i = 0; i < list.size(); ++i) copies[slot.values[i]] = list[i];
      }
    }
    for (Value* value : results) part.add_output({copies.at(value), OutputKind::kUserOutput, ""});
    return Interpreter(part).run({});
  }

  // A constant of 16 or 8 bits stays one, and a row that is repeated stays a row.
  bool grows(const Node& node, const std::vector<Value*>& values) const {
    constexpr int64_t kSmall = 1 << 16;
    int64_t before = 0, after = 0;
    for (const Value* value : values) {
      const Tensor& constant = *graph_.find_constant(value);
      before += constant.numel() * static_cast<int64_t>(size_of(constant.dtype()));
    }
    for (const Value* value : node.outputs())
      after += product(value->meta->shape()) * static_cast<int64_t>(size_of(value->meta->dtype));
    return after > before && after > kSmall;
  }

  Graph& graph_;
  const FoldFrom from_;
  std::vector<Node*> nodes_;
  std::set<const Value*> folded_;
  std::set<const Value*>
      dequantized_;  // of those folded, which are integers as reals, moved or not
  std::set<const Value*> banned_;
};

}  // namespace

int fold_input_free(Graph& graph, FoldFrom from) { return Folding(graph, from).run(); }

}  // namespace octet
