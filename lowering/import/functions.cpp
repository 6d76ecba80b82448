// Imports functions of one operand: rows of names, and compositions.
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/import/steps.h"

namespace octet {

// Counts -0 as negative, because 1 / -0 is.
int is_negative(Steps& s, int x) {
  const int zero = s.number(0, x);
  return s.where(s.compare("eq", x, zero), s.compare("lt", s.unary("reciprocal", x), zero),
                 s.compare("lt", x, zero));
}

namespace {

// The word of a row is the function of Program's `unary`.
void emit_unary(Steps& s, const Node& node, const char* function,
                std::optional<double> alpha = std::nullopt) {
  Attributes attributes = {{attr::kFn, std::string(function)}};
  if (alpha) attributes[attr::kAlpha] = *alpha;
  const char* name = node.find_argument("self") != nullptr ? "self" : "input";
  s.emit("unary", {s.input(name)}, std::move(attributes));
}

void import_function(Steps& s, const Node& node) { emit_unary(s, node, s.word()); }
void import_leaky_relu(Steps& s, const Node& node) {
  emit_unary(s, node, "leaky_relu", node.float_or("negative_slope", 0.01));
}
void import_rrelu(Steps& s, const Node& node) {
  if (node.bool_or("training", false)) return s.refuse("in training");
  emit_unary(s, node, "leaky_relu",
             (node.float_or("lower", 1.0 / 8) + node.float_or("upper", 1.0 / 3)) / 2);
}

void import_gelu(Steps& s, const Node& node) {
  const std::string word = text_argument(node, "approximate");
  emit_unary(s, node, word == "tanh" ? "gelu_tanh" : "gelu");
}

void import_elu(Steps& s, const Node& node) {
  if (node.float_or("input_scale", 1) != 1) return s.refuse("with input_scale other than 1");
  const double scale = node.float_or("scale", 1);
  if (scale == 1) return emit_unary(s, node, "elu", node.float_or("alpha", 1));
  const int y = s.unary("elu", s.operand("self"), node.float_or("alpha", 1));
  s.give(s.mul(y, s.number(scale, y)));
}

// The operand; integers become float32.
int real_self(Steps& s) {
  const int x = s.self();
  return is_floating_point(s.dtype(x)) ? x : s.cast(x, DType::kFloat32);
}

void import_function_of_reals(Steps& s, const Node&) { s.give(s.unary(s.word(), real_self(s))); }

// Rounds to `decimals` digits after the point.
void import_round(Steps& s, const Node& node) {
  const int x = s.self();
  const int64_t decimals = node.int_or("decimals", 0);
  if (!is_floating_point(s.dtype(x))) return s.give(x);
  if (decimals == 0) return s.give(s.unary("round", x));
  const double unit = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const int factor = s.number(unit, x);
  s.give(decimals > 0 ? s.div(s.unary("round", s.mul(x, factor)), factor)
                      : s.mul(s.unary("round", s.div(x, factor)), factor));
}

void import_square(Steps& s, const Node&) {
  const int x = s.self();
  s.give(s.mul(x, x));
}

void import_frac(Steps& s, const Node&) {
  const int x = s.self();
  s.give(s.sub(x, s.unary("trunc", x)));
}

void import_celu(Steps& s, const Node& node) {
  s.give(s.unary("celu", s.self(), node.float_or("alpha", 1)));
}

void import_softplus(Steps& s, const Node& node) {
  const int x = s.self();
  s.give(s.op("unary", {x}, s.sizes(x), s.dtype(x),
              {{attr::kFn, std::string("softplus")},
               {attr::kAlpha, node.float_or("beta", 1)},
               {attr::kThreshold, node.float_or("threshold", 20)}}));
}

// aten.log_sigmoid_forward has a second result, for its gradient.
void import_log_sigmoid(Steps& s, const Node& node) {
  if (node.outputs().size() > 1 && !node.outputs()[1]->is_unused())
    return s.refuse("whose buffer is used");
  s.give(s.unary("log_sigmoid", s.self()));
}

void import_logit(Steps& s, const Node& node) {
  int x = s.self();
  const Argument* eps = node.find_argument("eps");
  if (eps != nullptr && !eps->is_none()) {
    const double margin = node.float_or("eps", 0);
    x = s.clamp(x, margin, 1 - margin);
  }
  s.give(s.unary("log", s.div(x, s.sub(s.number(1, x), x))));
}

// The comparisons let NaN pass through.
int within(Steps& s, int x, double lambda) {
  return s.compare("le", s.unary("abs", x), s.number(lambda, x));
}
void import_hardshrink(Steps& s, const Node& node) {
  const int x = s.self();
  s.give(s.where(within(s, x, node.float_or("lambd", 0.5)), s.number(0, x), x));
}
void import_softshrink(Steps& s, const Node& node) {
  const int x = s.self();
  const double lambda = node.float_or("lambd", 0.5);
  const int nearer = s.sub(x, s.mul(s.unary("sign", x), s.number(lambda, x)));
  s.give(s.where(within(s, x, lambda), s.number(0, x), nearer));
}
void import_threshold(Steps& s, const Node& node) {
  const int x = s.self();
  s.give(s.where(s.compare("le", x, s.number(node.float_or("threshold", 0), x)),
                 s.number(node.float_or("value", 0), x), x));
}

void import_nan_to_num(Steps& s, const Node& node) {
  const int x = s.self();
  if (s.dtype(x) != DType::kFloat32) return s.refuse("of another dtype than float32");
  const double most = std::numeric_limits<float>::max();
  const int known = s.where(s.compare("ne", x, x), s.number(node.float_or("nan", 0), x), x);
  const int below = s.where(s.compare("eq", known, s.number(INFINITY, x)),
                            s.number(node.float_or("posinf", most), x), known);
  s.give(s.where(s.compare("eq", below, s.number(-INFINITY, x)),
                 s.number(node.float_or("neginf", -most), x), below));
}

// ---- signs and infinities

void import_signbit(Steps& s, const Node&) {
  const int x = s.self();
  s.give(is_floating_point(s.dtype(x)) ? is_negative(s, x) : s.compare("lt", x, s.number(0, x)));
}

// word: the sign of the infinity.
void import_is_infinity(Steps& s, const Node&) {
  const double which = *s.word() == '-' ? -INFINITY : INFINITY;
  const int wide = real_self(s);
  s.give(s.compare("eq", wide, s.number(which, wide)));
}
// The angle of a real number: 0, or pi if it is negative; NaN stays NaN.
void import_angle(Steps& s, const Node&) {
  const int x = real_self(s);
  const int turned =
      s.where(s.compare("lt", x, s.number(0, x)), s.number(std::numbers::pi, x), s.number(0, x));
  s.give(s.where(s.compare("ne", x, x), x, s.cast(s.expand(turned, s.sizes(x)), s.dtype(x))));
}

// sin(pi x) / (pi x)
void import_sinc(Steps& s, const Node&) {
  const int x = real_self(s);
  const int angle = s.mul(x, s.number(std::numbers::pi, x));
  s.give(s.where(s.compare("eq", x, s.number(0, x)), s.number(1, x),
                 s.div(s.unary("sin", angle), angle)));
}

// ---- tests, to booleans

void import_test(Steps& s, const Node&) {
  const int x = s.self();
  s.give(s.op("unary", {x}, s.sizes(x), DType::kBool, {{attr::kFn, std::string(s.word())}}));
}

void import_bitwise_not(Steps& s, const Node&) { s.give(s.unary("bitwise_not", s.self())); }

constexpr ImportRow kFunctionRows[] = {
    {"aten.round", import_round},
    {"aten.square", import_square},
    {"aten.frac", import_frac},
    {"aten.celu", import_celu},
    {"aten.softplus", import_softplus},
    {"aten.log_sigmoid", import_log_sigmoid},
    {"aten.log_sigmoid_forward", import_log_sigmoid},
    {"aten.logit", import_logit},
    {"aten.special_logit", import_logit},
    {"aten.hardshrink", import_hardshrink},
    {"aten.softshrink", import_softshrink},
    {"aten.threshold", import_threshold},
    {"aten.nan_to_num", import_nan_to_num},
    {"aten.bitwise_not", import_bitwise_not},
    {"aten.sigmoid", import_function, "sigmoid"},
    {"aten.tanh", import_function, "tanh"},
    {"aten.hardswish", import_function, "hardswish"},
    {"aten.hardsigmoid", import_function, "hardsigmoid"},
    {"aten.silu", import_function, "silu"},
    {"aten.exp", import_function, "exp"},
    {"aten.neg", import_function, "neg"},
    {"aten.abs", import_function, "abs"},
    {"aten.sqrt", import_function, "sqrt"},
    {"aten.rsqrt", import_function, "rsqrt"},
    {"aten.negative", import_function, "neg"},
    {"aten.absolute", import_function, "abs"},
    {"aten.leaky_relu", import_leaky_relu},
    {"aten.rrelu", import_rrelu},
    {"aten.gelu", import_gelu},
    {"aten.elu", import_elu},
    {"aten.signbit", import_signbit},
    {"aten.sinc", import_sinc},
    {"aten.isposinf", import_is_infinity, "+"},
    {"aten.isneginf", import_is_infinity, "-"},
    {"aten.angle", import_angle},
    {"aten.erf", import_function_of_reals, "erf"},
    {"aten.erfc", import_function_of_reals, "erfc"},
    {"aten.lgamma", import_function_of_reals, "lgamma"},
    {"aten.special_gammaln", import_function_of_reals, "lgamma"},
    {"aten.log", import_function_of_reals, "log"},
    {"aten.log2", import_function_of_reals, "log2"},
    {"aten.log10", import_function_of_reals, "log10"},
    {"aten.log1p", import_function_of_reals, "log1p"},
    {"aten.expm1", import_function_of_reals, "expm1"},
    {"aten.exp2", import_function_of_reals, "exp2"},
    {"aten.sin", import_function_of_reals, "sin"},
    {"aten.cos", import_function_of_reals, "cos"},
    {"aten.tan", import_function_of_reals, "tan"},
    {"aten.asin", import_function_of_reals, "asin"},
    {"aten.acos", import_function_of_reals, "acos"},
    {"aten.atan", import_function_of_reals, "atan"},
    {"aten.sinh", import_function_of_reals, "sinh"},
    {"aten.cosh", import_function_of_reals, "cosh"},
    {"aten.asinh", import_function_of_reals, "asinh"},
    {"aten.acosh", import_function_of_reals, "acosh"},
    {"aten.atanh", import_function_of_reals, "atanh"},
    {"aten.ceil", import_function_of_reals, "ceil"},
    {"aten.floor", import_function_of_reals, "floor"},
    {"aten.trunc", import_function_of_reals, "trunc"},
    {"aten.fix", import_function_of_reals, "trunc"},
    {"aten.sign", import_function_of_reals, "sign"},
    {"aten.sgn", import_function_of_reals, "sign"},
    {"aten.reciprocal", import_function_of_reals, "reciprocal"},
    {"aten.mish", import_function_of_reals, "mish"},
    {"aten.selu", import_function_of_reals, "selu"},
    {"aten.isnan", import_test, "isnan"},
    {"aten.isinf", import_test, "isinf"},
    {"aten.isfinite", import_test, "isfinite"},
    {"aten.logical_not", import_test, "logical_not"},
};

}  // namespace

std::span<const ImportRow> function_import_rows() { return kFunctionRows; }

}  // namespace octet
