#include "annotate/graph/constant_products.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "annotate/graph/constant_subgraph.h"
#include "core/base/shape.h"
#include "core/graph/origin.h"

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

bool is_matrix(const Value& value) { return value.meta && value.meta->sizes.size() == 2; }

bool is_float(const Value& value) {
  return value.kind() == ValueKind::kTensor && value.meta && is_floating_point(value.meta->dtype);
}

// The sizes of the dimensions that `dims` lists.
Shape permuted(const Shape& shape, const Shape& dims) {
  Shape result;
  for (int64_t dim : dims) result.push_back(shape[static_cast<size_t>(dim)]);
  return result;
}

// The matrix before an op that transposes it; null for other ops.
Value* find_transposed(const Value& value) {
  const Node* node = value.producer();
  if (node == nullptr) return nullptr;
  Value* matrix = node->find_input("self");
  if (matrix == nullptr || !is_matrix(*matrix)) return nullptr;
  const bool swaps = node->is("aten.t") || node->is("aten.numpy_T") || node->is("aten.mT") ||
                     (node->is("aten.transpose.int") &&
                      (node->int_or("dim0", 0) - node->int_or("dim1", 0)) % 2 != 0) ||
                     (node->is("aten.permute") && (node->ints_or("dims", {0, 1})[0] % 2) != 0);
  return swaps ? matrix : nullptr;
}

// Inserts nodes before the one that is replaced.
class Steps {
 public:
  Steps(Graph& graph, Node& node) : graph_(graph), node_(node) {}

  Value* add(const char* op, std::vector<NamedArgument> arguments, const char* suffix, DType dtype,
             const Shape& shape) {
    Node* step = graph_.insert(op, std::move(arguments), node_.name() + suffix,
                               make_meta(dtype, shape), &node_);
    step->metadata = node_.metadata;
    forget_origin(*step);
    return step->output();
  }

  Value* permute(Value* x, const Shape& dims, const char* suffix) {
    if (std::ranges::is_sorted(dims)) return x;
    return add("aten.permute.default", {{"self", x}, {"dims", dims}}, suffix, x->meta->dtype,
               permuted(x->meta->shape(), dims));
  }

 private:
  Graph& graph_;
  Node& node_;
};

// Changes the node to compute the same value with another op.
void become(Node& node, const char* op, std::vector<NamedArgument> arguments) {
  const std::vector<NamedArgument> before = node.arguments();
  for (const NamedArgument& argument : before) node.erase_argument(argument.name);
  node.set_target(op);
  for (NamedArgument& argument : arguments)
    node.set_argument(argument.name, std::move(argument.value), argument.kind);
}

bool rewrite_matmul(Graph& graph, Node& node, const std::unordered_set<const Value*>& constants) {
  Value* x = node.find_input("self");
  Value* weight = node.find_input("other");
  if (x == nullptr || weight == nullptr || constants.contains(x) || !constants.contains(weight) ||
      !is_matrix(*weight) || !is_float(*weight))
    return false;
  Value* rows = find_transposed(*weight);
  if (rows == nullptr) rows = Steps(graph, node).permute(weight, {1, 0}, "_weight");
  become(node, "aten.linear.default", {{"input", x}, {"weight", rows}});
  return true;
}

// ---- einsum

// "ibh,hnd->ibnd" with the second operand constant, or the first.
struct Equation {
  std::string x, weight, result;
};

bool has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

bool has_twins(std::string labels) {
  std::ranges::sort(labels);
  return std::adjacent_find(labels.begin(), labels.end()) != labels.end();
}

// Parses an equation of two operands. `is_second`: the weight is the second one.
std::optional<Equation> parse(std::string text, bool is_second) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || has(text, '.')) return {};
  Equation equation{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
                    text.substr(arrow + 2)};
  if (!is_second) std::swap(equation.x, equation.weight);
  for (const std::string& labels : {equation.x, equation.weight, equation.result})
    if (has_twins(labels)) return {};
  const auto stands_once = [&](char label) {  // once in the result or in the other operand
    const bool is_common = has(equation.x, label) && has(equation.weight, label);
    return is_common != has(equation.result, label);
  };
  const std::string all = equation.x + equation.weight;
  if (!std::ranges::all_of(all, stands_once)) return {};
  return equation;
}

// The labels for which has(other, label) is `wanted`.
std::string filtered(const std::string& labels, const std::string& other, bool wanted) {
  std::string result;
  for (char label : labels)
    if (has(other, label) == wanted) result += label;
  return result;
}

Shape places(const std::string& wanted, const std::string& labels) {
  Shape dims;
  for (char label : wanted) dims.push_back(static_cast<int64_t>(labels.find(label)));
  return dims;
}

// The constant as [out, in].
Value* weight_matrix(Steps& steps, Value* weight, const Equation& equation, const Shape& outs,
                     int64_t in) {
  const std::string order =
      filtered(equation.weight, equation.x, false) + filtered(equation.x, equation.weight, true);
  Value* ordered = steps.permute(weight, places(order, equation.weight), "_permuted");
  const Shape shape = {product(outs), in};
  if (ordered->meta->shape() == shape) return ordered;
  return steps.add("aten.reshape.default", {{"self", ordered}, {"shape", shape}}, "_weight",
                   weight->meta->dtype, shape);
}

// x with its summed labels last, as one dimension.
Value* rows_of(Steps& steps, Value* x, const Equation& equation, const Shape& outer, int64_t in) {
  const std::string summed = filtered(equation.x, equation.weight, true);
  const std::string order = filtered(equation.x, equation.weight, false) + summed;
  Value* ordered = steps.permute(x, places(order, equation.x), "_input");
  if (summed.size() == 1) return ordered;
  Shape shape = outer;
  shape.push_back(in);
  return steps.add("aten.flatten.using_ints",
                   {{"self", ordered},
                    {"start_dim", static_cast<int64_t>(outer.size())},
                    {"end_dim", int64_t{-1}}},
                   "_rows", x->meta->dtype, shape);
}

bool rewrite_einsum(Graph& graph, Node& node, const std::unordered_set<const Value*>& constants) {
  const Argument* text = node.find_argument("equation");
  const Argument* list = node.find_argument("tensors");
  const auto* operands = list == nullptr ? nullptr : list->find<std::vector<Value*>>();
  if (text == nullptr || text->find<std::string>() == nullptr || operands == nullptr ||
      operands->size() != 2)
    return false;
  const bool is_second = constants.contains((*operands)[1]);
  Value* weight = (*operands)[is_second ? 1 : 0];
  Value* x = (*operands)[is_second ? 0 : 1];
  if (!constants.contains(weight) || constants.contains(x) || !is_float(*weight) || !is_float(*x) ||
      !x->meta->is_static() || !weight->meta->is_static())
    return false;
  const std::optional<Equation> equation = parse(*text->find<std::string>(), is_second);
  if (!equation) return false;
  const auto sizes = [](const std::string& wanted, const std::string& labels, const Value* value) {
    return permuted(value->meta->shape(), places(wanted, labels));
  };
  const std::string summed = filtered(equation->x, equation->weight, true);
  const std::string kept = filtered(equation->x, equation->weight, false);
  const std::string made = filtered(equation->weight, equation->x, false);
  const Shape outer = sizes(kept, equation->x, x), outs = sizes(made, equation->weight, weight),
              inner = sizes(summed, equation->x, x);
  if (summed.empty() || made.empty() || inner != sizes(summed, equation->weight, weight))
    return false;
  const int64_t in = product(inner);
  Steps steps(graph, node);
  Value* rows = rows_of(steps, x, *equation, outer, in);
  std::vector<NamedArgument> layer = {
      {"input", rows}, {"weight", weight_matrix(steps, weight, *equation, outs, in)}};
  const std::string order = kept + made;
  if (order == equation->result && outs.size() == 1) {
    become(node, "aten.linear.default", std::move(layer));
    return true;
  }
  Shape shape = outer;
  shape.push_back(product(outs));
  Value* y = steps.add("aten.linear.default", std::move(layer), "_linear", x->meta->dtype, shape);
  std::vector<NamedArgument> parts = {{"self", y}, {"dim", int64_t{-1}}, {"sizes", outs}};
  if (order == equation->result) {
    become(node, "aten.unflatten.int", std::move(parts));
    return true;
  }
  shape = outer;
  shape.insert(shape.end(), outs.begin(), outs.end());
  if (outs.size() > 1)
    y = steps.add("aten.unflatten.int", std::move(parts), "_parts", x->meta->dtype, shape);
  become(node, "aten.permute.default", {{"self", y}, {"dims", places(equation->result, order)}});
  return true;
}

}  // namespace

int constant_products_to_linear(Graph& graph) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  int changes = 0;
  for (Node* node : graph.nodes()) {
    if (node->target() == "aten.matmul.default")
      changes += rewrite_matmul(graph, *node, constants) ? 1 : 0;
    else if (node->target() == "aten.einsum.default")
      changes += rewrite_einsum(graph, *node, constants) ? 1 : 0;
  }
  return changes;
}

}  // namespace octet
