#include "annotate/graph/formulas.h"

#include <cmath>
#include <optional>
#include <string_view>

#include "core/base/tensor.h"

namespace octet {
namespace {

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

  // What makes the value, behind changes of dtype and place.
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

  // The value without changes of dtype.
  static const Value* origin(const Value* value) {
    while (value != nullptr && value->producer() != nullptr &&
           (value->producer()->is("aten.to") || value->producer()->is("aten._to_copy")))
      value = value->producer()->inputs().front();
    return value;
  }

  // An operand that is a number: a literal, or a constant of one element.
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

  // The other operand of value = operand op number; null when it is not that. The op is noted.
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

  // x of tanh(...) or erf(...); null when it is none of the formulas.
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
  std::vector<const Node*> steps_;  // of what may become a formula
  std::unordered_set<const Node*> found_;
};

}  // namespace

std::unordered_set<const Node*> find_formula_nodes(const Graph& graph) {
  return Formulas(graph).find();
}

}  // namespace octet
