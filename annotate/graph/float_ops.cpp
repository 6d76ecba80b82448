#include "annotate/graph/float_ops.h"

#include <algorithm>
#include <cmath>

#include "annotate/graph/constant_subgraph.h"
#include "core/base/tensor.h"

namespace octet {
namespace {

constexpr std::string_view kDequantizeOps[] = {
    "quantized_decomposed.dequantize_per_tensor",
    "quantized_decomposed.dequantize_per_channel",
    "quantized_decomposed.dequantize_per_token",
    "quantized_decomposed.dequantize_per_channel_group",
    "torchao.dequantize_affine",
};

// Ops that move, view or create data without computing.
// clang-format off
constexpr std::string_view kMovingOps[] = {
    "aten.view", "aten._unsafe_view", "aten.reshape", "aten.flatten", "aten.unflatten",
    "aten.permute", "aten.transpose", "aten.t", "aten.numpy_T", "aten.contiguous", "aten.clone",
    "aten.detach", "aten.alias", "aten.lift_fresh_copy", "aten.slice", "aten.select", "aten.split",
    "aten.split_with_sizes", "aten.chunk", "aten.unbind", "aten.squeeze", "aten.unsqueeze",
    "aten.expand", "aten.expand_as", "aten.cat", "aten.stack", "aten.copy", "aten.to",
    "aten._to_copy", "aten.type_as", "aten.dropout", "aten.feature_dropout", "aten.alpha_dropout",
    "aten.pad", "aten.constant_pad_nd", "aten.gather", "aten.index", "aten.index_select",
    "aten.masked_fill", "aten.where", "aten.repeat", "aten.flip", "aten.roll", "aten.pixel_shuffle",
    "aten.pixel_unshuffle", "aten.channel_shuffle", "aten.embedding", "aten.zeros", "aten.ones",
    "aten.full", "aten.zeros_like", "aten.ones_like", "aten.full_like", "aten.empty", "aten.arange",
    "aten.narrow", "aten.movedim", "aten.triu", "aten.tril", "aten.scatter", "aten.index_put",
    "aten.slice_copy", "aten.select_copy", "aten.view_copy", "aten.permute_copy",
    "aten.squeeze_copy", "aten.unsqueeze_copy", "aten.expand_copy", "aten.scalar_tensor",
    "aten.new_zeros", "aten.new_ones", "aten.new_full", "aten.fill", "aten.identity"};
// clang-format on

template <size_t N>
bool is_any(const Node& node, const std::string_view (&ops)[N]) {
  return std::ranges::any_of(ops, [&](std::string_view op) { return node.is(op); });
}

bool is_float_tensor(const Value* value) {
  return value->kind() == ValueKind::kTensor && value->meta &&
         is_floating_point(value->meta->dtype);
}

bool comes_from_dequantize(const Value* value) {
  return value->producer() != nullptr && is_any(*value->producer(), kDequantizeOps);
}

class Formulas {
 public:
  explicit Formulas(const Graph& graph) : graph_(graph) {}

  std::unordered_set<const Node*> find() {
    for (const Node* node : graph_.nodes())
      if (is(*node, "mul")) find_gelu(*node);
    return std::move(found_);
  }

 private:
  static bool is(const Node& node, std::string_view name) {
    return node.is("aten." + std::string(name)) || node.is("aten." + std::string(name) + "_");
  }

  // The producer of the value, before changes of dtype and device.
  static const Node* producer(const Value* value) {
    const Node* node = value == nullptr ? nullptr : value->producer();
    while (node != nullptr && (node->is("aten.to") || node->is("aten._to_copy")))
      node = node->inputs().front()->producer();
    return node;
  }
  static const Node* producer(const Value* value, std::string_view name) {
    const Node* node = producer(value);
    return node != nullptr && is(*node, name) ? node : nullptr;
  }

  // The value before changes of dtype.
  static const Value* origin(const Value* value) {
    while (value != nullptr && value->producer() != nullptr &&
           (value->producer()->is("aten.to") || value->producer()->is("aten._to_copy")))
      value = value->producer()->inputs().front();
    return value;
  }

  // The operand as a number, when it is a literal or a constant of one element.
  std::optional<double> number(const Node& node, std::string_view name) const {
    const Value* value = node.find_input(name);
    if (value == nullptr) {
      const double literal = node.float_or(name, NAN);
      return std::isnan(literal) ? std::nullopt : std::optional(literal);
    }
    const Tensor* constant = graph_.find_constant(origin(value));
    if (constant == nullptr || constant->numel() != 1 || constant->dtype() != DType::kFloat32)
      return std::nullopt;
    return constant->contiguous().data<float>()[0];
  }

  bool is_number(const Node& node, std::string_view name, double wanted) const {
    const std::optional<double> found = number(node, name);
    return found && std::fabs(*found - wanted) <= 1e-6 * std::fabs(wanted);
  }

  // The other operand when value = operand op number, and records the op; else null.
  const Value* other(const Value* value, std::string_view op, double wanted) {
    const Node* node = producer(value, op);
    if (node == nullptr) return nullptr;
    const bool is_behind = is_number(*node, "other", wanted);
    if (!is_behind && !is_number(*node, "self", wanted)) return nullptr;
    steps_.push_back(node);
    return origin(node->find_input(is_behind ? "self" : "other"));
  }

  bool is_cube(const Value* value, const Value* x) {
    if (const Node* power = producer(value, "pow")) {
      steps_.push_back(power);
      return is_number(*power, "exponent", 3) && origin(power->find_input("self")) == x;
    }
    const Node* outer = producer(value, "mul");
    if (outer == nullptr) return false;
    for (const auto& [left, right] : {std::pair("self", "other"), std::pair("other", "self")}) {
      const Node* inner = producer(outer->find_input(left), "mul");
      if (origin(outer->find_input(right)) != x || inner == nullptr) continue;
      steps_.insert(steps_.end(), {outer, inner});
      return origin(inner->find_input("self")) == x && origin(inner->find_input("other")) == x;
    }
    return false;
  }

  // x of tanh(...) or erf(...); null for other formulas.
  const Value* function_operand(const Value* value) {
    const Node* error = producer(value, "erf");
    const Node* tangent = producer(value, "tanh");
    if (error != nullptr) {
      steps_.push_back(error);
      const Value* inside = error->find_input("self");
      const Value* x = other(inside, "div", std::sqrt(2.0));
      return x != nullptr ? x : other(inside, "mul", 1 / std::sqrt(2.0));
    }
    if (tangent == nullptr) return nullptr;
    steps_.push_back(tangent);
    const Value* sum = other(tangent->find_input("self"), "mul", std::sqrt(2 / M_PI));
    const Node* add = producer(sum, "add");
    if (add == nullptr) return nullptr;
    steps_.push_back(add);
    for (const auto& [left, right] : {std::pair("self", "other"), std::pair("other", "self")}) {
      const Value* x = origin(add->find_input(left));
      const Value* cube = other(add->find_input(right), "mul", 0.044715);
      if (x != nullptr && cube != nullptr && is_cube(cube, x)) return x;
    }
    return nullptr;
  }

  void find_gelu(const Node& product) {
    for (const auto& [left, right] : {std::pair("self", "other"), std::pair("other", "self")}) {
      steps_ = {&product};
      const Value* function = other(product.find_input(left), "add", 1);
      const Value* x = function == nullptr ? nullptr : function_operand(function);
      if (x == nullptr || other(product.find_input(right), "mul", 0.5) != x) continue;
      return found_.insert(steps_.begin(), steps_.end());
    }
  }

  const Graph& graph_;
  std::vector<const Node*> steps_;  // nodes of the current candidate
  std::unordered_set<const Node*> found_;
};

}  // namespace

bool computes_on_floats(const Node& node) {
  if (!node.target().starts_with("aten.") || is_any(node, kMovingOps)) return false;
  const std::vector<Value*> inputs = node.inputs();
  const std::vector<Value*> outputs = node.outputs();
  return std::ranges::any_of(inputs, is_float_tensor) &&
         std::ranges::any_of(outputs, is_float_tensor);
}

std::vector<const Node*> find_float_ops(const Graph& graph) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  std::unordered_set<const Node*> quantized;  // found so far
  // Dequantized, constant, created from nothing (zeros), or the result of a quantized op that only
  // this one uses (the convolution before a relu).
  const auto fits = [&](const Value* input) {
    if (!is_float_tensor(input) || constants.contains(input) || comes_from_dequantize(input))
      return true;
    if (input->producer() != nullptr && input->producer()->inputs().empty()) return true;
    return input->producer() != nullptr && input->has_one_user() &&
           quantized.contains(input->producer());
  };
  std::vector<const Node*> result;
  for (const Node* node : graph.nodes()) {
    if (!computes_on_floats(*node)) continue;
    const std::vector<Value*> inputs = node->inputs();
    if (std::ranges::all_of(inputs, fits)) {
      quantized.insert(node);
    } else {
      result.push_back(node);
    }
  }
  return result;
}

int report_float_ops(const Graph& graph, const Annotations& annotations, Report& report) {
  std::unordered_set<std::string> known;
  for (const ReportEntry& entry : report.entries()) known.insert(entry.node);
  int added = 0;
  for (const Node* op : find_float_ops(graph)) {
    const QuantizationAnnotation* annotation = annotations.find(op);
    if (known.contains(op->name()) ||
        (annotation != nullptr && !annotation->input_qspec_map.empty()))
      continue;
    ++added;
    const std::vector<ModuleFrame> stack = module_stack(*op);
    report.add({"convert", op->name(), op->target(), stack.empty() ? "" : stack.back().path,
                "no rule of the quantizer gave it a spec"});
  }
  return added;
}

std::unordered_set<const Node*> find_formula_nodes(const Graph& graph) {
  return Formulas(graph).find();
}

}  // namespace octet
