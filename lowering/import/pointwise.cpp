// Arithmetic, clamps and functions of one element.
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

bool has_only_small_tensors(Importer& importer, const std::vector<int>& inputs) {
  for (int index : inputs) {
    const DType dtype = importer.tensor(index).dtype;
    if (dtype != DType::kBool && !is_integer(dtype) &&
        (!is_floating_point(dtype) || size_of(dtype) < 2))
      return false;
  }
  return true;
}

void emit_binary(Importer& importer, const Node& node, const std::string& kind,
                 Attributes attributes = {}) {
  const std::vector<int> inputs = {importer.operand(node, "self"), importer.operand(node, "other")};
  if (!has_only_small_tensors(importer, inputs))
    return importer.refuse(node, "of complex or float8 tensors");
  importer.emit(node, kind, inputs, std::move(attributes));
}

Attributes alpha_of(const Node& node) {
  const Attribute alpha = literal_attribute(node, "alpha", 1);
  if (alpha == Attribute(1.0)) return {};
  return {{"alpha", alpha}};
}

void import_add(Importer& importer, const Node& node) {
  emit_binary(importer, node, "add", alpha_of(node));
}
void import_sub(Importer& importer, const Node& node) {
  emit_binary(importer, node, "sub", alpha_of(node));
}
void import_mul(Importer& importer, const Node& node) { emit_binary(importer, node, "mul"); }
void import_minimum(Importer& importer, const Node& node) {
  emit_binary(importer, node, "minimum");
}
void import_maximum(Importer& importer, const Node& node) {
  emit_binary(importer, node, "maximum");
}

void import_div(Importer& importer, const Node& node) {
  const Argument* rounding = node.find_argument("rounding_mode");
  const std::string* mode = rounding == nullptr ? nullptr : rounding->find<std::string>();
  if (mode != nullptr)
    return import_binary_function(importer, node, *mode == "floor" ? "div_floor" : "div_trunc");
  emit_binary(importer, node, "div");
}

// other - alpha * self
void import_rsub(Importer& importer, const Node& node) {
  importer.emit(node, "sub", {importer.operand(node, "other"), importer.operand(node, "self")},
                alpha_of(node));
}

void import_where(Importer& importer, const Node& node) {
  if (is_nonzero_by_where(node)) return import_nonzero_by_dimension(importer, node);
  importer.emit(node, "where",
                {importer.operand(node, "condition"), importer.operand(node, "self"),
                 importer.operand(node, "other")});
}

// value where the mask is set, self elsewhere
void import_masked_fill(Importer& importer, const Node& node) {
  importer.emit(node, "where",
                {importer.operand(node, "mask"), importer.operand(node, "value"),
                 importer.operand(node, "self")});
}

// ---- clamps

void emit_clamp(Importer& importer, const Node& node, const std::optional<Attribute>& low,
                const std::optional<Attribute>& high) {
  Attributes attributes;
  if (low) attributes["min"] = *low;
  if (high) attributes["max"] = *high;
  importer.emit(node, "clamp", {importer.operand(node, "self")}, std::move(attributes));
}

void import_relu(Importer& importer, const Node& node) {
  emit_clamp(importer, node, 0.0, std::nullopt);
}
void import_relu6(Importer& importer, const Node& node) { emit_clamp(importer, node, 0.0, 6.0); }
void import_hardtanh(Importer& importer, const Node& node) {
  emit_clamp(importer, node, node.float_or("min_val", -1), node.float_or("max_val", 1));
}

std::optional<Attribute> bound(const Node& node, const char* name) {
  const Argument* argument = node.find_argument(name);
  if (argument == nullptr || argument->is_none()) return std::nullopt;
  return literal_attribute(node, name, 0);
}

void import_clamp(Importer& importer, const Node& node) {
  if (node.find_input("min") != nullptr || node.find_input("max") != nullptr)
    return import_clamp_tensors(importer, node);
  emit_clamp(importer, node, bound(node, "min"), bound(node, "max"));
}
void import_clamp_min(Importer& importer, const Node& node) {
  if (node.find_input("min") != nullptr) return import_clamp_tensors(importer, node);
  emit_clamp(importer, node, literal_attribute(node, "min", 0), std::nullopt);
}
void import_clamp_max(Importer& importer, const Node& node) {
  if (node.find_input("max") != nullptr) return import_clamp_tensors(importer, node);
  emit_clamp(importer, node, std::nullopt, literal_attribute(node, "max", 0));
}

// ---- functions

void emit_unary(Importer& importer, const Node& node, const char* function,
                std::optional<double> alpha = std::nullopt) {
  Attributes attributes = {{"fn", std::string(function)}};
  if (alpha) attributes["alpha"] = *alpha;
  const char* name = node.find_argument("self") != nullptr ? "self" : "input";
  importer.emit(node, "unary", {importer.operand(node, name)}, std::move(attributes));
}

void import_sigmoid(Importer& importer, const Node& node) { emit_unary(importer, node, "sigmoid"); }
void import_tanh(Importer& importer, const Node& node) { emit_unary(importer, node, "tanh"); }
void import_hardswish(Importer& importer, const Node& node) {
  emit_unary(importer, node, "hardswish");
}
void import_hardsigmoid(Importer& importer, const Node& node) {
  emit_unary(importer, node, "hardsigmoid");
}
void import_silu(Importer& importer, const Node& node) { emit_unary(importer, node, "silu"); }
void import_exp(Importer& importer, const Node& node) { emit_unary(importer, node, "exp"); }
void import_neg(Importer& importer, const Node& node) { emit_unary(importer, node, "neg"); }
void import_abs(Importer& importer, const Node& node) { emit_unary(importer, node, "abs"); }
void import_sqrt(Importer& importer, const Node& node) { emit_unary(importer, node, "sqrt"); }
void import_rsqrt(Importer& importer, const Node& node) { emit_unary(importer, node, "rsqrt"); }
void import_leaky_relu(Importer& importer, const Node& node) {
  emit_unary(importer, node, "leaky_relu", node.float_or("negative_slope", 0.01));
}

void import_gelu(Importer& importer, const Node& node) {
  const Argument* approximate = node.find_argument("approximate");
  const std::string* word = approximate == nullptr ? nullptr : approximate->find<std::string>();
  emit_unary(importer, node, word != nullptr && *word == "tanh" ? "gelu_tanh" : "gelu");
}

void import_elu(Importer& importer, const Node& node) {
  if (node.float_or("input_scale", 1) != 1)
    return importer.refuse(node, "with input_scale other than 1");
  const double scale = node.float_or("scale", 1);
  if (scale == 1) return emit_unary(importer, node, "elu", node.float_or("alpha", 1));
  Steps s(importer, node);
  const int y = s.unary("elu", s.operand("self"), node.float_or("alpha", 1));
  s.give(s.mul(y, s.number(scale, y)));
}

void import_pow(Importer& importer, const Node& node) {
  const Argument* exponent = node.find_argument("exponent");
  if (exponent == nullptr || exponent->value_or_null() != nullptr ||
      node.find_input("self") == nullptr)
    return import_binary_function(importer, node, "pow");
  // Integers wrap, which floats in between would not.
  if (!is_floating_point(node.output()->meta->dtype))
    return import_binary_function(importer, node, "pow");
  if (node.float_or("exponent", 1) == 3) {  // as ATen computes it
    Steps s(importer, node);
    const int x = s.operand("self");
    return s.give(s.mul(s.mul(x, x), x));
  }
  emit_unary(importer, node, "pow", node.float_or("exponent", 1));
}

void import_prelu(Importer& importer, const Node& node) {
  importer.emit(node, "prelu", {importer.operand(node, "self"), importer.operand(node, "weight")});
}

constexpr ImportRow kPointwiseRows[] = {
    {"aten.add", import_add},
    {"aten.sub", import_sub},
    {"aten.rsub", import_rsub},
    {"aten.mul", import_mul},
    {"aten.div", import_div},
    {"aten.divide", import_div},
    {"aten.true_divide", import_div},
    {"aten.multiply", import_mul},
    {"aten.subtract", import_sub},
    {"aten.clip", import_clamp},
    {"aten.negative", import_neg},
    {"aten.absolute", import_abs},
    {"aten.minimum", import_minimum},
    {"aten.maximum", import_maximum},
    {"aten.where", import_where},
    {"aten.masked_fill", import_masked_fill},
    {"aten.relu", import_relu},
    {"aten.relu6", import_relu6},
    {"aten.hardtanh", import_hardtanh},
    {"aten.clamp", import_clamp},
    {"aten.clamp_min", import_clamp_min},
    {"aten.clamp_max", import_clamp_max},
    {"aten.sigmoid", import_sigmoid},
    {"aten.tanh", import_tanh},
    {"aten.hardswish", import_hardswish},
    {"aten.hardsigmoid", import_hardsigmoid},
    {"aten.silu", import_silu},
    {"aten.gelu", import_gelu},
    {"aten.leaky_relu", import_leaky_relu},
    {"aten.elu", import_elu},
    {"aten.exp", import_exp},
    {"aten.neg", import_neg},
    {"aten.abs", import_abs},
    {"aten.sqrt", import_sqrt},
    {"aten.rsqrt", import_rsqrt},
    {"aten.pow", import_pow},
    {"aten.prelu", import_prelu},
};

}  // namespace

std::span<const ImportRow> pointwise_import_rows() { return kPointwiseRows; }

}  // namespace octet
