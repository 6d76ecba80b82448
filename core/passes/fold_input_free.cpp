// Copies the nodes into a separate graph and runs it with the interpreter.
#include "core/passes/rewrites.h"

#include <algorithm>
#include <set>

#include <ATen/core/Tensor.h>

#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/ops/memory.h"

namespace octet {
namespace {

bool is_quantization(const Node& node) {
  static const char* const kPrefixes[] = {"quantized_decomposed.", "torchao.", "quantized."};
  return std::ranges::any_of(kPrefixes,
                             [&](const char* prefix) { return node.target().starts_with(prefix); });
}

// Whether the op dequantizes integers with scales per tensor, channel or block. (Scales per row are
// only for computed activations.)
bool is_dequantization(const Node& node) {
  return is_quantization(node) && node.target().find("dequantize") != std::string::npos &&
         !node.is("quantized_decomposed.dequantize_per_token");
}

// Whether the op quantizes, dequantizes, or chooses a scale for that.
bool is_conversion(const Node& node) {
  return is_quantization(node) && (node.target().find("quantize_") != std::string::npos ||
                                   node.target().find("choose_qparams") != std::string::npos);
}

// Whether the op only rearranges the elements of its input.
bool only_moves(const Node& node) {
  static const char* const kCopies[] = {"aten.clone", "aten.contiguous", "aten.cat", "aten.stack",
                                        "aten.reshape"};
  return !aliased_inputs(node).empty() ||
         std::ranges::any_of(kCopies, [&](const char* name) { return node.is(name); });
}

bool is_number(const Value& value) {
  return value.kind() == ValueKind::kSymInt || value.kind() == ValueKind::kSymFloat ||
         value.kind() == ValueKind::kSymBool;
}

// Whether the results are plain tensors; with_sizes: also numbers, and tensors of unknown shapes.
bool gives_tensors(const Node& node, bool with_sizes) {
  const auto is_known = [&](const Value* value) {
    if (value == nullptr) return false;
    if (with_sizes && is_number(*value)) return !value->is_output();
    return value->kind() == ValueKind::kTensor && value->meta &&
           (with_sizes || value->meta->is_static());
  };
  return !node.results().empty() &&
         std::ranges::all_of(node.results(), [&](const ResultSlot& slot) {
           const bool is_tensors =
               slot.kind == ResultSlot::Kind::kSingle || slot.kind == ResultSlot::Kind::kList;
           return is_tensors && std::ranges::all_of(slot.values, is_known);
         });
}

// Whether it is an ATen op or a Python function on numbers.
bool can_be_folded(const Node& node, bool with_sizes) {
  const std::vector<Value*> results = node.outputs();
  const bool is_known = node.target().starts_with("aten.") ||
                        (with_sizes && results.size() == 1 && is_number(*results[0]));
  return is_known && !node.is("aten.empty") && !is_quantization(node) &&
         (!has_side_effects(node) || is_in_place(node)) && gives_tensors(node, with_sizes);
}

// The name in "Symbol('u0', integer=True)"; "" for other expressions.
std::string symbol_of(const std::string& expression) {
  constexpr std::string_view kStart = "Symbol('";
  const size_t end = expression.find('\'', kStart.size());
  const bool is_symbol = expression.starts_with(kStart) && end != std::string::npos &&
                         expression.find(')') == expression.size() - 1;
  return is_symbol ? expression.substr(kStart.size(), end - kStart.size()) : "";
}

Argument number_argument(const c10::IValue& value) {
  if (value.isInt()) return value.toInt();
  if (value.isBool()) return value.toBool();
  return value.toDouble();
}

std::set<const Value*> fixed_constants(const Graph& graph) {
  const std::unordered_set<const Value*> written = written_constants(graph);
  std::set<const Value*> fixed;
  for (const GraphInput& input : graph.inputs())
    if (graph.find_constant(input.value) != nullptr && !written.contains(input.value))
      fixed.insert(input.value);
  return fixed;
}

bool nobody_reads(const Node& node) {
  const std::vector<Value*> results = node.outputs();
  return std::ranges::all_of(results, [](const Value* value) { return value->is_unused(); });
}

std::vector<Value*> values_of(const Node& node) {
  std::vector<Value*> values;
  for (const NamedArgument& argument : node.arguments())
    for_each_value(argument.value, [&](Value* value) { values.push_back(value); });
  return values;
}

class Folding {
 public:
  Folding(Graph& graph, FoldFrom from, std::map<std::string, int64_t>* symbols)
      : graph_(graph), from_(from), symbols_(symbols) {}

  int run() {
    do choose();
    while (ban_written() || ban_dequantized());
    if (nodes_.empty()) return 0;
    const std::vector<Value*> results = read_by_others();
    const std::vector<c10::IValue> computed = compute(results);
    for (size_t i = 0; i < results.size(); ++i) {
      if (symbols_ != nullptr) note_symbols(*results[i], computed[i]);
      replace(results[i], computed[i]);
    }
    int count = 0;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      if (!nobody_reads(**node)) continue;  // a number in a place that allows no literals
      graph_.erase(**node);
      ++count;
    }
    return count;
  }

 private:
  void choose() {
    const std::set<const Value*> fixed = fixed_constants(graph_);
    nodes_.clear();
    folded_.clear();
    dequantized_.clear();
    for (Node* node : graph_.nodes()) {
      const bool converts =
          from_ == FoldFrom::kConstants && is_conversion(*node) && gives_tensors(*node, false);
      if (!converts && !can_be_folded(*node, symbols_ != nullptr)) continue;
      const std::vector<Value*> values = values_of(*node);
      const auto is_folded = [&](const Value* value) { return folded_.contains(value); };
      const bool depends_on_nothing = std::ranges::all_of(values, [&](const Value* value) {
        return is_folded(value) || (fixed.contains(value) && !banned_.contains(value));
      });
      const std::vector<Value*> results = node->outputs();
      const bool is_banned =
          std::ranges::any_of(results, [&](const Value* value) { return banned_.contains(value); });
      if (!depends_on_nothing || is_banned) continue;
      if (is_in_place(*node) && !is_folded(values.front())) continue;
      const bool is_of_constants = !values.empty() && std::ranges::none_of(values, is_folded);
      if (is_of_constants && (from_ == FoldFrom::kNothing || (!converts && grows(*node, values))))
        continue;
      nodes_.push_back(node);
      folded_.insert(results.begin(), results.end());
      const bool is_dequantized =
          is_dequantization(*node) ||
          (only_moves(*node) && std::ranges::any_of(values, [&](const Value* value) {
             return dequantized_.contains(value);
           }));
      if (is_dequantized) dequantized_.insert(results.begin(), results.end());
    }
  }

  // The values that a value may share memory with, back to those that are not folded or own their
  // memory.
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

  // Whether memory of `root` that the fold holds is read before the writer runs.
  bool is_read_before(const Node& writer, const Value* root) const {
    return std::ranges::any_of(folded_, [&](const Value* value) {
      return memory_of(value).back() == root &&
             std::ranges::any_of(value->users(), [&](const Node* user) {
               return !is_chosen(user) && graph_.is_before(*user, writer);
             });
    });
  }

  // Excludes values that something outside of the fold writes to, or whose content before a write
  // is read outside. Returns whether there were any.
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

  // Excludes integers that others read dequantized, so that they stay integers. Returns whether
  // there were any.
  bool ban_dequantized() {
    const size_t before = banned_.size();
    for (const Value* value : read_by_others())
      if (dequantized_.contains(value)) banned_.insert(value);
    return banned_.size() != before;
  }

  // Whether the value has a symbol.
  bool has_symbol(const Value& value) const {
    if (symbols_ == nullptr) return false;
    return value.kind() == ValueKind::kTensor ? !value.meta->is_static()
                                              : !symbol_of(value.symbol).empty();
  }

  void note_symbols(const Value& value, const c10::IValue& computed) {
    const auto note = [&](const std::string& expression, int64_t size) {
      if (const std::string name = symbol_of(expression); !name.empty()) (*symbols_)[name] = size;
    };
    if (computed.isInt()) note(value.symbol, computed.toInt());
    if (value.kind() != ValueKind::kTensor) return;
    const at::IntArrayRef sizes = computed.toTensor().sizes();
    for (size_t d = 0; d < sizes.size() && d < value.meta->sizes.size(); ++d)
      note(value.meta->sizes[d].expr, sizes[d]);
  }

  void replace(Value* value, const c10::IValue& computed) {
    if (value->is_unused()) return;
    if (value->kind() == ValueKind::kTensor) {
      const Tensor tensor = from_aten(computed.toTensor().contiguous());
      graph_.replace_uses(value,
                          graph_.add_constant(value->name(), tensor, InputKind::kTensorConstant));
      return;
    }
    const std::vector<Node*> users = value->users();
    put_number(*value, number_argument(computed));
    for (Node* user : users) {
      const bool* holds = user->is("aten._assert_scalar") && !user->arguments().empty()
                              ? user->arguments()[0].value.find<bool>()
                              : nullptr;
      if (holds != nullptr && *holds) graph_.erase(*user);
    }
  }

  std::vector<Value*> read_by_others() const {
    const std::set<const Node*> inside(nodes_.begin(), nodes_.end());
    std::vector<Value*> results;
    for (const Node* node : nodes_)
      for (Value* value : node->outputs())
        if (value->is_output() || has_symbol(*value) ||
            std::ranges::any_of(value->users(),
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
          copies[value] = part.add_result(*twin, value->name(), value->meta, value->kind());
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

  // Whether folding needs much more memory: constants of 16 or 8 bits and rows that are repeated
  // stay unfolded.
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
  std::map<std::string, int64_t>* const symbols_;
  std::vector<Node*> nodes_;
  std::set<const Value*> folded_;
  std::set<const Value*>
      dequantized_;  // folded values that are dequantized integers, rearranged or not
  std::set<const Value*> banned_;
};

}  // namespace

int fold_input_free(Graph& graph, FoldFrom from, std::map<std::string, int64_t>* symbols) {
  return Folding(graph, from, symbols).run();
}

}  // namespace octet
