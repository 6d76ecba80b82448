#include "tools/cli/quantize/products.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_set>

#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/ops/weighted_ops.h"

namespace octet {
namespace {

double product_of(std::span<const int64_t> sizes) {
  double product = 1;
  for (int64_t size : sizes) product *= static_cast<double>(size);
  return product;
}

// The op that computes: of out_dtype(op, int32, operands...), which a program may also contain
// from the start, the op that it calls.
std::string_view target_of(const Node& node) {
  constexpr std::string_view kPrefix = "torch.ops.";
  const bool calls_op = node.is("higher_order.out_dtype") && node.arguments().size() > 3;
  const auto* called = calls_op ? node.arguments()[0].value.find<OperatorRef>() : nullptr;
  if (called == nullptr || !called->target.starts_with(kPrefix)) return node.target();
  return std::string_view(called->target).substr(kPrefix.size());
}

// The last name of "aten.conv2d.default": "conv2d".
std::string base_of(const Node& node) {
  std::string_view target = target_of(node);
  if (!target.starts_with("aten.")) return {};
  target.remove_prefix(std::string_view("aten.").size());
  return std::string(target.substr(0, target.find('.')));
}

// Empty without metadata.
std::vector<int64_t> shape_of(const Value* value) {
  return value != nullptr && value->meta ? value->meta->shape() : std::vector<int64_t>{};
}

bool is_half(const Value* value) {
  return value != nullptr && value->producer() != nullptr &&
         value->producer()->is("quantized_decomposed.convert_element_type");
}

bool is_of_integers(const Value* value) {
  return value != nullptr && value->meta && is_integer(value->meta->dtype);
}

// Dequantized, or in the reference representation an integer, possibly as float64.
bool has_integers(const Value* value) {
  const Node* node = value->producer();
  const bool is_cast = node != nullptr && node->is("aten.to.dtype");
  return is_dequantized(value) || is_of_integers(value) ||
         (is_cast && is_of_integers(node->find_input("self")));
}

bool is_stored_small(const Value* value) { return has_integers(value) || is_half(value); }

struct Operands {
  const Value *x = nullptr, *w = nullptr;
};

// The two factors of a product; empty for other ops.
Operands operands_of(const Node& node) {
  if (const std::string base = base_of(node);
      node.is("higher_order.out_dtype") && (base.starts_with("conv") || base == "linear"))
    return {node.arguments()[2].value.value_or_null(), node.arguments()[3].value.value_or_null()};
  const WeightedOp* row = find_weighted_op(node);
  if (row == nullptr || row->form == WeightForm::kTable) return {};
  return {node.find_input(row->x), node.find_input(row->weight)};
}

double macs_of(const Node& node, const Operands& operands, const Value* y) {
  const std::vector<int64_t> in = shape_of(operands.x), weight = shape_of(operands.w),
                             out = shape_of(y);
  if (y == nullptr || !y->meta || in.empty() || weight.empty() || weight[0] == 0) return 0;
  const double each = product_of(weight) / static_cast<double>(weight[0]);
  if (is_transposed_conv(node)) return product_of(in) * each;
  if (base_of(node).starts_with("conv")) return product_of(out) * each;
  return product_of(out) * static_cast<double>(in.back());
}

// The elements of a constant or of a dequantized constant; 0 for other values.
double weights_of(const Value* value, const std::unordered_set<const Value*>& constants) {
  const Node* producer = value->producer();
  const bool is_stored = is_stored_small(value) && producer != nullptr &&
                         !producer->inputs().empty() &&
                         constants.contains(producer->inputs().front());
  return is_stored || constants.contains(value) ? product_of(shape_of(value)) : 0;
}

// 4 for -8 .. 7; 8 for the range of the dtype.
int bits_of(const Value* value) {
  if (is_half(value)) return 16;
  if (!is_dequantized(value)) return 32;
  const Argument *least = value->producer()->find_argument("quant_min"),
                 *greatest = value->producer()->find_argument("quant_max");
  const bool has_range = least != nullptr && least->find<int64_t>() != nullptr &&
                         greatest != nullptr && greatest->find<int64_t>() != nullptr;
  if (!has_range) return 8;
  const int64_t steps = *greatest->find<int64_t>() - *least->find<int64_t>() + 1;
  return std::bit_width(static_cast<uint64_t>(std::max<int64_t>(steps, 2) - 1));
}

std::optional<Product> product_of_two(const Node& node,
                                      const std::unordered_set<const Value*>& constants) {
  const Operands operands = operands_of(node);
  if (operands.x == nullptr || operands.w == nullptr) return std::nullopt;
  return Product{.macs = macs_of(node, operands, node.output_or_null()),
                 .weights = weights_of(operands.w, constants),
                 .weight_bits = bits_of(operands.w),
                 .input_bits = bits_of(operands.x),
                 .has_integer_inputs = has_integers(operands.x) && has_integers(operands.w),
                 .has_integer_weights = is_stored_small(operands.w)};
}

// query [..., rows, depth], key [..., columns, depth], value [..., columns, width].
std::optional<Product> attention(const Node& node) {
  if (!node.is("aten.scaled_dot_product_attention")) return std::nullopt;
  const std::vector<int64_t> query = shape_of(node.find_input("query")),
                             value = shape_of(node.find_input("value"));
  if (query.size() < 2 || value.size() < 2) return std::nullopt;
  const double columns = static_cast<double>(value[value.size() - 2]);
  const double depth = static_cast<double>(query.back()), width = static_cast<double>(value.back());
  return Product{.macs = product_of(query) / depth * columns * (depth + width)};
}

// lstm, gru, rnn_tanh, rnn_relu: each step multiplies by all matrices of the parameters.
std::optional<Product> recurrent(const Node& node) {
  const std::string base = base_of(node);
  if (base != "lstm" && base != "gru" && base != "rnn_tanh" && base != "rnn_relu")
    return std::nullopt;
  const Argument* params = node.find_argument("params");
  const std::vector<Value*>* weights =
      params == nullptr ? nullptr : params->find<std::vector<Value*>>();
  const std::vector<int64_t> in = shape_of(node.find_input("input"));
  if (weights == nullptr || in.empty()) return std::nullopt;
  Product product{.has_integer_weights = true};
  const double rows = product_of(in) / static_cast<double>(in.back());
  for (const Value* weight : *weights) {
    const std::vector<int64_t> shape = shape_of(weight);
    if (shape.size() != 2) continue;
    product.macs += rows * product_of(shape);
    product.has_integer_weights &= is_stored_small(weight);
  }
  return product;
}

void add_products(const Graph& graph, const std::string& prefix, std::vector<Product>& products) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  for (const Node* node : graph.nodes()) {
    std::optional<Product> product = product_of_two(*node, constants);
    if (!product) product = attention(*node);
    if (!product) product = recurrent(*node);
    if (!product || !(product->macs > 0)) continue;
    product->name = prefix + node->name();
    products.push_back(std::move(*product));
  }
}

}  // namespace

int weight_bits_of(const Node& node) {
  const WeightedOp* row = find_weighted_op(node);
  const Value* weight = row == nullptr ? nullptr : node.find_input(row->weight);
  return weight == nullptr ? 32 : bits_of(weight);
}

std::vector<Product> find_products(const Graph& graph) {
  std::vector<Product> products;
  add_products(graph, "", products);
  for (const Body& body : bodies_within(graph))
    add_products(*body.graph, body.path + ".", products);
  return products;
}

}  // namespace octet
