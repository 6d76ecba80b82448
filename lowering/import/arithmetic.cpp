// Imports arithmetic, comparisons, clamps and functions of several operands.
#include <cmath>
#include <numbers>
#include <optional>

#include "lowering/import/steps.h"

namespace octet {
namespace {

// ---- functions of two operands; the word of a row is the function of Program's `binary`

void emit_binary_function(Steps& s, const Node& node, const char* function) {
  const int a = s.self(), b = s.operand({"other", "exponent"});
  if (a < 0 || b < 0) return s.refuse("without two operands");
  const Value* value = node.outputs().front();
  const DType dtype = value->meta ? value->meta->dtype : s.dtype(a);
  s.give(s.binary(function, a, b, dtype));
}

void import_function_of_two(Steps& s, const Node& node) { emit_binary_function(s, node, s.word()); }

void import_xlogy(Steps& s, const Node&) {
  const int a = s.self(), b = s.operand("other");
  s.give(s.where(s.compare("eq", a, s.number(0, a)), s.number(0, b), s.mul(a, s.unary("log", b))));
}

// Casts the operands to the dtype that the graph recorded for the result.
struct RealOperands {
  int a, b;
};
RealOperands operands_of_reals(Steps& s, const Node& node) {
  const Value* value = node.outputs().front();
  const auto as_result = [&](int x) {
    return value->meta && is_floating_point(value->meta->dtype) ? s.cast(x, value->meta->dtype) : x;
  };
  return {as_result(s.self()), as_result(s.operand("other"))};
}

// fmax and fmin: NaN counts as missing.
void import_known_extreme(Steps& s, const Node& node) {
  const auto [a, b] = operands_of_reals(s, node);
  const int both = s.arithmetic(s.word(), a, b);
  s.give(s.where(s.compare("ne", a, a), b, s.where(s.compare("ne", b, b), a, both)));
}
void import_heaviside(Steps& s, const Node&) {
  const int x = s.self(), at_zero = s.operand("values");
  const int step = s.cast(s.compare("gt", x, s.number(0, x)), s.dtype(x));
  const int known = s.where(s.compare("eq", x, s.number(0, x)), at_zero, step);
  s.give(known);
}

void import_hypot(Steps& s, const Node& node) {
  const auto [a, b] = operands_of_reals(s, node);
  s.give(s.unary("sqrt", s.add(s.mul(a, a), s.mul(b, b))));
}

void import_copysign(Steps& s, const Node& node) {
  const auto [a, b] = operands_of_reals(s, node);
  const int size = s.unary("abs", a);
  s.give(s.where(is_negative(s, b), s.unary("neg", size), size));
}

// log(base^a + base^b); if one operand is infinite, the larger one. word: the base.
void import_sum_of_powers(Steps& s, const Node& node) {
  const double base = *s.word() == '2' ? 2 : std::numbers::e;
  const auto [a, b] = operands_of_reals(s, node);
  const int most = s.arithmetic("maximum", a, b), apart = s.unary("abs", s.sub(a, b));
  const int less = s.unary("exp", s.mul(apart, s.number(-std::log(base), apart)));
  const int more = s.add(most, s.mul(s.unary("log1p", less), s.number(1 / std::log(base), less)));
  s.give(s.where(s.compare("eq", s.unary("abs", most), s.number(INFINITY, most)), most, more));
}
// ---- arithmetic; the word of a row is the kind

bool has_only_small_tensors(Steps& s, const std::vector<int>& inputs) {
  for (int index : inputs) {
    const DType dtype = s.tensor(index).dtype;
    if (dtype != DType::kBool && !is_integer(dtype) &&
        (!is_floating_point(dtype) || size_of(dtype) < 2))
      return false;
  }
  return true;
}

void emit_binary(Steps& s, const std::string& kind, Attributes attributes = {}) {
  const std::vector<int> inputs = {s.input("self"), s.input("other")};
  if (!has_only_small_tensors(s, inputs)) return s.refuse("of complex or float8 tensors");
  s.emit(kind, inputs, std::move(attributes));
}

Attributes alpha_of(const Node& node) {
  const Attribute alpha = literal_attribute(node, "alpha", 1);
  if (alpha == Attribute(1.0)) return {};
  return {{attr::kAlpha, alpha}};
}

void import_arithmetic(Steps& s, const Node& node) { emit_binary(s, s.word(), alpha_of(node)); }

void import_div(Steps& s, const Node& node) {
  const std::string mode = text_argument(node, "rounding_mode");
  if (!mode.empty())
    return emit_binary_function(s, node, mode == "floor" ? "div_floor" : "div_trunc");
  emit_binary(s, "div");
}

// other - alpha * self
void import_rsub(Steps& s, const Node& node) {
  s.emit("sub", {s.input("other"), s.input("self")}, alpha_of(node));
}

void import_where(Steps& s, const Node& node) {
  if (is_nonzero_by_where(node)) return import_nonzero_by_dimension(s, node);
  s.emit("where", {s.input("condition"), s.input("self"), s.input("other")});
}

// value where the mask is set, self elsewhere
void import_masked_fill(Steps& s, const Node&) {
  s.emit("where", {s.input("mask"), s.input("value"), s.input("self")});
}

// ---- clamps

void import_clamp_by_tensors(Steps& s, const char* low, const char* high) {
  int x = s.self();
  if (const int least = low == nullptr ? -1 : s.operand(low); least >= 0)
    x = s.arithmetic("maximum", x, least);
  if (const int most = high == nullptr ? -1 : s.operand(high); most >= 0)
    x = s.arithmetic("minimum", x, most);
  s.give(x);
}

void import_clamp_tensors(Steps& s, const Node& node) {
  node.is("aten.clamp_max")   ? import_clamp_by_tensors(s, nullptr, "max")
  : node.is("aten.clamp_min") ? import_clamp_by_tensors(s, "min", nullptr)
                              : import_clamp_by_tensors(s, "min", "max");
}

void emit_clamp(Steps& s, const std::optional<Attribute>& low,
                const std::optional<Attribute>& high) {
  Attributes attributes;
  if (low) attributes[attr::kMin] = *low;
  if (high) attributes[attr::kMax] = *high;
  s.emit("clamp", {s.input("self")}, std::move(attributes));
}

void import_relu(Steps& s, const Node&) { emit_clamp(s, 0.0, std::nullopt); }
void import_relu6(Steps& s, const Node&) { emit_clamp(s, 0.0, 6.0); }
void import_hardtanh(Steps& s, const Node& node) {
  emit_clamp(s, node.float_or("min_val", -1), node.float_or("max_val", 1));
}

std::optional<Attribute> bound(const Node& node, const char* name) {
  if (!is_given(node, name)) return std::nullopt;
  return literal_attribute(node, name, 0);
}

void import_clamp(Steps& s, const Node& node) {
  if (node.find_input("min") != nullptr || node.find_input("max") != nullptr)
    return import_clamp_tensors(s, node);
  emit_clamp(s, bound(node, "min"), bound(node, "max"));
}
void import_clamp_min(Steps& s, const Node& node) {
  if (node.find_input("min") != nullptr) return import_clamp_tensors(s, node);
  emit_clamp(s, literal_attribute(node, "min", 0), std::nullopt);
}
void import_clamp_max(Steps& s, const Node& node) {
  if (node.find_input("max") != nullptr) return import_clamp_tensors(s, node);
  emit_clamp(s, std::nullopt, literal_attribute(node, "max", 0));
}

void import_pow(Steps& s, const Node& node) {
  const Argument* exponent = node.find_argument("exponent");
  if (exponent == nullptr || exponent->value_or_null() != nullptr ||
      node.find_input("self") == nullptr)
    return emit_binary_function(s, node, "pow");
  // Integers wrap, which floats would not do.
  if (!is_floating_point(node.output()->meta->dtype)) return emit_binary_function(s, node, "pow");
  if (node.float_or("exponent", 1) == 3) {  // as ATen computes it
    const int x = s.operand("self");
    return s.give(s.mul(s.mul(x, x), x));
  }
  s.emit("unary", {s.input("self")},
         {{attr::kFn, std::string("pow")}, {attr::kAlpha, node.float_or("exponent", 1)}});
}

void import_prelu(Steps& s, const Node&) { s.emit("prelu", {s.input("self"), s.input("weight")}); }

// self + value * a * b, self + value * a / b
void import_addcmul(Steps& s, const Node& node) {
  const int product = s.mul(s.operand("tensor1"), s.operand("tensor2"));
  s.give(s.add(s.self(), s.mul(product, s.number(node.float_or("value", 1), product))));
}
void import_addcdiv(Steps& s, const Node& node) {
  const int ratio = s.div(s.operand("tensor1"), s.operand("tensor2"));
  s.give(s.add(s.self(), s.mul(ratio, s.number(node.float_or("value", 1), ratio))));
}

// self + weight * (end - self)
void import_lerp(Steps& s, const Node&) {
  const int x = s.self(), weight = s.operand("weight");
  s.give(s.add(x, s.mul(s.sub(s.operand("end"), x), s.cast(weight, s.dtype(x)))));
}

constexpr ImportRow kArithmeticRows[] = {
    {"aten.add", import_arithmetic, "add"},
    {"aten.sub", import_arithmetic, "sub"},
    {"aten.rsub", import_rsub},
    {"aten.mul", import_arithmetic, "mul"},
    {"aten.div", import_div},
    {"aten.divide", import_div},
    {"aten.true_divide", import_div},
    {"aten.multiply", import_arithmetic, "mul"},
    {"aten.subtract", import_arithmetic, "sub"},
    {"aten.clip", import_clamp},
    {"aten.minimum", import_arithmetic, "minimum"},
    {"aten.maximum", import_arithmetic, "maximum"},
    {"aten.where", import_where},
    {"aten.masked_fill", import_masked_fill},
    {"aten.relu", import_relu},
    {"aten.relu6", import_relu6},
    {"aten.hardtanh", import_hardtanh},
    {"aten.clamp", import_clamp},
    {"aten.clamp_min", import_clamp_min},
    {"aten.clamp_max", import_clamp_max},
    {"aten.pow", import_pow},
    {"aten.prelu", import_prelu},
    {"aten.xlogy", import_xlogy},
    {"aten.special_xlogy", import_xlogy},
    {"aten.addcmul", import_addcmul},
    {"aten.addcdiv", import_addcdiv},
    {"aten.lerp", import_lerp},
    {"aten.eq", import_function_of_two, "eq"},
    {"aten.ne", import_function_of_two, "ne"},
    {"aten.not_equal", import_function_of_two, "ne"},
    {"aten.lt", import_function_of_two, "lt"},
    {"aten.less", import_function_of_two, "lt"},
    {"aten.le", import_function_of_two, "le"},
    {"aten.less_equal", import_function_of_two, "le"},
    {"aten.gt", import_function_of_two, "gt"},
    {"aten.greater", import_function_of_two, "gt"},
    {"aten.ge", import_function_of_two, "ge"},
    {"aten.greater_equal", import_function_of_two, "ge"},
    {"aten.logical_and", import_function_of_two, "logical_and"},
    {"aten.logical_or", import_function_of_two, "logical_or"},
    {"aten.logical_xor", import_function_of_two, "logical_xor"},
    {"aten.bitwise_and", import_function_of_two, "bitwise_and"},
    {"aten.__and__", import_function_of_two, "bitwise_and"},
    {"aten.bitwise_or", import_function_of_two, "bitwise_or"},
    {"aten.__or__", import_function_of_two, "bitwise_or"},
    {"aten.bitwise_xor", import_function_of_two, "bitwise_xor"},
    {"aten.__xor__", import_function_of_two, "bitwise_xor"},
    {"aten.bitwise_left_shift", import_function_of_two, "left_shift"},
    {"aten.__lshift__", import_function_of_two, "left_shift"},
    {"aten.bitwise_right_shift", import_function_of_two, "right_shift"},
    {"aten.__rshift__", import_function_of_two, "right_shift"},
    {"aten.remainder", import_function_of_two, "remainder"},
    {"aten.fmod", import_function_of_two, "fmod"},
    {"aten.floor_divide", import_function_of_two, "div_floor"},
    {"aten.atan2", import_function_of_two, "atan2"},
    {"aten.copysign", import_copysign},
    {"aten.fmax", import_known_extreme, "maximum"},
    {"aten.fmin", import_known_extreme, "minimum"},
    {"aten.heaviside", import_heaviside},
    {"aten.hypot", import_hypot},
    {"aten.logaddexp", import_sum_of_powers, "e"},
    {"aten.logaddexp2", import_sum_of_powers, "2"},
};

}  // namespace

std::span<const ImportRow> arithmetic_import_rows() { return kArithmeticRows; }

}  // namespace octet
