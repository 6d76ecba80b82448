// Writes elementwise functions of one, two or three tensors.
#include <cmath>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

using Name = const std::string&;

// ---- functions of one element

struct DirectRow {
  const char* function;
  const char* type;
};
constexpr DirectRow kDirect[] = {
    {"abs", "Abs"},     {"acos", "Acos"},
    {"acosh", "Acosh"}, {"asin", "Asin"},
    {"asinh", "Asinh"}, {"atan", "Atan"},
    {"atanh", "Atanh"}, {"ceil", "Ceil"},
    {"cos", "Cos"},     {"cosh", "Cosh"},
    {"erf", "Erf"},     {"exp", "Exp"},
    {"floor", "Floor"}, {"hardswish", "HardSwish"},
    {"isinf", "IsInf"}, {"isnan", "IsNaN"},
    {"log", "Log"},     {"logical_not", "Not"},
    {"neg", "Neg"},     {"reciprocal", "Reciprocal"},
    {"selu", "Selu"},   {"sigmoid", "Sigmoid"},
    {"sign", "Sign"},   {"sin", "Sin"},
    {"sinh", "Sinh"},   {"softsign", "Softsign"},
    {"sqrt", "Sqrt"},   {"tan", "Tan"},
    {"tanh", "Tanh"},
};

double alpha_of(const OnnxSteps& s, double fallback) {
  return s.source.get(attr::kAlpha, fallback);
}

std::string with_alpha(OnnxSteps& s, const char* type, Name x, double fallback) {
  return s.op(type, {x}, {{"alpha", static_cast<float>(alpha_of(s, fallback))}});
}
std::string elu(OnnxSteps& s, Name x) { return with_alpha(s, "Elu", x, 1); }
std::string celu(OnnxSteps& s, Name x) { return with_alpha(s, "Celu", x, 1); }
std::string leaky_relu(OnnxSteps& s, Name x) { return with_alpha(s, "LeakyRelu", x, 0.01); }
std::string hardsigmoid(OnnxSteps& s, Name x) {
  return s.op("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
}
std::string silu(OnnxSteps& s, Name x) { return s.mul(x, s.op("Sigmoid", {x})); }

// (f + 1) * x / 2
std::string weighed(OnnxSteps& s, Name x, Name f) {
  return s.mul(s.mul(x, s.add(f, s.number(1))), s.number(0.5));
}
// Gelu is an operator from opset 20 on.
std::string gelu(OnnxSteps& s, Name x) {
  if (s.writer.opset() >= 20) return s.op("Gelu", {x}, {{"approximate", std::string("none")}});
  return weighed(s, x, s.op("Erf", {s.div(x, s.number(std::sqrt(2.0)))}));
}
std::string gelu_tanh(OnnxSteps& s, Name x) {
  if (s.writer.opset() >= 20) return s.op("Gelu", {x}, {{"approximate", std::string("tanh")}});
  const std::string cube = s.mul(s.mul(x, s.mul(x, x)), s.number(0.044715));
  return weighed(s, x,
                 s.op("Tanh", {s.mul(s.add(x, cube), s.number(std::sqrt(2 / std::acos(-1.0))))}));
}

// Ignores the threshold: beyond it, the results differ by less than the last bit of a float.
std::string softplus(OnnxSteps& s, Name x) {
  const double beta = alpha_of(s, 1);
  if (beta == 1) return s.op("Softplus", {x});
  return s.div(s.op("Softplus", {s.mul(x, s.number(beta))}), s.number(beta));
}
std::string mish(OnnxSteps& s, Name x) {
  if (s.writer.opset() >= 18) return s.op("Mish", {x});
  return s.mul(x, s.op("Tanh", {s.op("Softplus", {x})}));
}
std::string log_sigmoid(OnnxSteps& s, Name x) {
  return s.op("Neg", {s.op("Softplus", {s.op("Neg", {x})})});
}

std::string rsqrt(OnnxSteps& s, Name x) { return s.op("Reciprocal", {s.op("Sqrt", {x})}); }
std::string square(OnnxSteps& s, Name x) { return s.mul(x, x); }
std::string power(OnnxSteps& s, Name x) { return s.op("Pow", {x, s.number(alpha_of(s, 1))}); }
std::string exp2(OnnxSteps& s, Name x) { return s.op("Pow", {s.number(2), x}); }
std::string log2(OnnxSteps& s, Name x) { return s.div(s.op("Log", {x}), s.number(std::log(2.0))); }
std::string log10(OnnxSteps& s, Name x) {
  return s.div(s.op("Log", {x}), s.number(std::log(10.0)));
}
std::string log1p(OnnxSteps& s, Name x) { return s.op("Log", {s.add(x, s.number(1))}); }
std::string expm1(OnnxSteps& s, Name x) { return s.sub(s.op("Exp", {x}), s.number(1)); }
std::string erfc(OnnxSteps& s, Name x) { return s.sub(s.number(1), s.op("Erf", {x})); }
std::string truncated(OnnxSteps& s, Name x) {
  return s.mul(s.op("Sign", {x}), s.op("Floor", {s.op("Abs", {x})}));
}
std::string rounded(OnnxSteps& s, Name x) {
  return is_floating_point(s.dtype()) ? s.op("Round", {x}) : x;
}
std::string is_finite(OnnxSteps& s, Name x) {
  return s.op("Not", {s.op("Or", {s.op("IsNaN", {x}), s.op("IsInf", {x})})});
}
std::string bitwise_not(OnnxSteps& s, Name x) {
  if (s.dtype() == DType::kBool) return s.op("Not", {x});
  return s.need(18, "operators of bits") ? s.op("BitwiseNot", {x}) : x;
}

struct ComposedRow {
  const char* function;
  std::string (*write)(OnnxSteps& s, Name x);
};
constexpr ComposedRow kComposed[] = {
    {"bitwise_not", bitwise_not},
    {"celu", celu},
    {"elu", elu},
    {"erfc", erfc},
    {"exp2", exp2},
    {"expm1", expm1},
    {"gelu", gelu},
    {"gelu_tanh", gelu_tanh},
    {"hardsigmoid", hardsigmoid},
    {"isfinite", is_finite},
    {"leaky_relu", leaky_relu},
    {"log10", log10},
    {"log1p", log1p},
    {"log2", log2},
    {"log_sigmoid", log_sigmoid},
    {"mish", mish},
    {"pow", power},
    {"round", rounded},
    {"rsqrt", rsqrt},
    {"silu", silu},
    {"softplus", softplus},
    {"square", square},
    {"trunc", truncated},
};

// Functions of reals also accept integers.
void write_unary(OnnxSteps& s) {
  const std::string function = s.source.get(attr::kFn);
  const bool tests_reals = function.starts_with("is");
  const std::string x = s.x(0, tests_reals ? s.in().dtype : s.dtype());
  for (const DirectRow& row : kDirect)
    if (function == row.function) return s.give(s.op(row.type, {x}));
  for (const ComposedRow& row : kComposed)
    if (function == row.function) return s.give(row.write(s, x));
  s.refuse("");
}

// ---- limits

void write_clamp(OnnxSteps& s) {
  const std::optional<double> low = s.source.find(attr::kMin), high = s.source.find(attr::kMax);
  const std::string x = s.x(0, s.dtype());
  if (low == 0.0 && !high) return s.give(s.op("Relu", {x}));
  s.give(s.op("Clip", {x, low ? s.number(*low) : "", high ? s.number(*high) : ""}));
}

// Slopes per channel are along dimension 1.
void write_prelu(OnnxSteps& s) {
  std::string slope = s.x(1);
  std::vector<int64_t> axes;
  for (size_t d = 1; d + 1 < s.rank(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (s.rank(1) == 1) slope = s.unsqueeze(slope, axes);
  s.give(s.op("PRelu", {s.x(), slope}));
}

// ---- arithmetic

struct Operands {
  std::string a, b;
};
Operands operands(OnnxSteps& s, DType dtype) { return {s.x(0, dtype), s.x(1, dtype)}; }
Operands operands(OnnxSteps& s) { return operands(s, s.dtype()); }

// b * alpha
std::string scaled_second(OnnxSteps& s, Name b) {
  const double alpha = alpha_of(s, 1);
  return alpha == 1 ? b : s.mul(b, s.number(alpha));
}
void give_pair(OnnxSteps& s, const char* type, const char* logic) {
  const Operands o = operands(s);
  s.give(s.op(s.dtype() == DType::kBool ? logic : type, {o.a, scaled_second(s, o.b)}));
}
void write_add(OnnxSteps& s) { give_pair(s, "Add", "Or"); }
void write_sub(OnnxSteps& s) { give_pair(s, "Sub", "Xor"); }
void write_mul(OnnxSteps& s) { give_pair(s, "Mul", "And"); }
void write_div(OnnxSteps& s) { give_pair(s, "Div", "Div"); }
void write_minimum(OnnxSteps& s) { give_pair(s, "Min", "And"); }
void write_maximum(OnnxSteps& s) { give_pair(s, "Max", "Or"); }

std::string power_of_both(OnnxSteps& s, const Operands& o) { return s.op("Pow", {o.a, o.b}); }
std::string floor_divided(OnnxSteps& s, const Operands& o) {
  if (is_floating_point(s.dtype())) return s.op("Floor", {s.div(o.a, o.b)});
  return s.div(s.sub(o.a, s.op("Mod", {o.a, o.b})), o.b);
}
std::string trunc_divided(OnnxSteps& s, const Operands& o) {
  const std::string quotient = s.div(o.a, o.b);
  return is_floating_point(s.dtype()) ? truncated(s, quotient) : quotient;
}
std::string remainder(OnnxSteps& s, const Operands& o) {
  if (!is_floating_point(s.dtype())) return s.op("Mod", {o.a, o.b});
  return s.sub(o.a, s.mul(s.op("Floor", {s.div(o.a, o.b)}), o.b));
}
std::string fmod(OnnxSteps& s, const Operands& o) {
  return s.op("Mod", {o.a, o.b}, {{"fmod", int64_t{1}}});
}
// The angle of (b, a): that of a / b, plus half a turn if b is negative.
std::string atan2(OnnxSteps& s, const Operands& o) {
  const double half = std::acos(-1.0);
  const std::string zero = s.number(0), angle = s.op("Atan", {s.div(o.a, o.b)});
  const std::string turn =
      s.op("Where", {s.op("Less", {o.a, zero}), s.number(-half), s.number(half)});
  const std::string turned = s.op("Where", {s.op("Less", {o.b, zero}), s.add(angle, turn), angle});
  const std::string upright = s.mul(s.op("Sign", {o.a}), s.number(half / 2));
  return s.op("Where", {s.op("Equal", {o.b, zero}), upright, turned});
}
std::string shifted_left(OnnxSteps& s, const Operands& o) {
  return s.mul(o.a, power_of_both(s, {s.number(2), o.b}));
}
std::string shifted_right(OnnxSteps& s, const Operands& o) {
  return floor_divided(s, {o.a, power_of_both(s, {s.number(2), o.b})});
}

struct ArithmeticRow {
  const char* function;
  std::string (*write)(OnnxSteps& s, const Operands& o);
};
constexpr ArithmeticRow kArithmetic[] = {
    {"pow", power_of_both},       {"remainder", remainder},       {"fmod", fmod},
    {"div_floor", floor_divided}, {"div_trunc", trunc_divided},   {"atan2", atan2},
    {"left_shift", shifted_left}, {"right_shift", shifted_right},
};

// ---- comparisons and logic

struct LogicRow {
  const char* function;
  const char* type;
  const char* bits;  // for integers; null: only for bools
};
constexpr LogicRow kLogic[] = {
    {"logical_and", "And", nullptr},   {"logical_or", "Or", nullptr},
    {"logical_xor", "Xor", nullptr},   {"bitwise_and", "And", "BitwiseAnd"},
    {"bitwise_or", "Or", "BitwiseOr"}, {"bitwise_xor", "Xor", "BitwiseXor"},
};
constexpr DirectRow kOrders[] = {
    {"eq", "Equal"}, {"lt", "Less"},    {"le", "LessOrEqual"},
    {"ne", "Equal"}, {"gt", "Greater"}, {"ge", "GreaterOrEqual"},
};

// The dtype for comparing two operands. ONNX has no order of booleans.
DType common_dtype(const OnnxSteps& s, bool is_order) {
  const DType a = s.in(0).dtype, b = s.in(1).dtype;
  if (is_floating_point(a) || is_floating_point(b)) {
    const bool is_double = a == DType::kFloat64 || b == DType::kFloat64;
    return a == b ? a : is_double ? DType::kFloat64 : DType::kFloat32;
  }
  if (a != b) return DType::kInt64;
  return a == DType::kBool && is_order ? DType::kInt32 : a;
}

void write_binary(OnnxSteps& s) {
  const std::string function = s.source.get(attr::kFn);
  for (const DirectRow& row : kOrders) {
    if (function != row.function) continue;
    const bool is_equality = std::string(row.type) == "Equal";
    const Operands o = operands(s, common_dtype(s, !is_equality));
    const std::string y = s.op(row.type, {o.a, o.b});
    return s.give(function == "ne" ? s.op("Not", {y}) : y);
  }
  for (const LogicRow& row : kLogic) {
    if (function != row.function) continue;
    const bool is_logic = row.bits == nullptr || s.dtype() == DType::kBool;
    if (!is_logic && !s.need(18, "operators of bits")) return;
    const Operands o = operands(s, is_logic ? DType::kBool : s.dtype());
    return s.give(s.op(is_logic ? row.type : row.bits, {o.a, o.b}));
  }
  for (const ArithmeticRow& row : kArithmetic)
    if (function == row.function) return s.give(row.write(s, operands(s)));
  s.refuse("");
}

void write_where(OnnxSteps& s) {
  s.give(s.op("Where", {s.x(0, DType::kBool), s.x(1, s.dtype()), s.x(2, s.dtype())}));
}

void write_cast(OnnxSteps& s) { s.give(s.x(0, s.dtype())); }

constexpr OnnxRow kElementRows[] = {
    {"unary", write_unary},   {"clamp", write_clamp},     {"prelu", write_prelu},
    {"add", write_add},       {"sub", write_sub},         {"mul", write_mul},
    {"div", write_div},       {"minimum", write_minimum}, {"maximum", write_maximum},
    {"binary", write_binary}, {"where", write_where},     {"cast", write_cast},
};

}  // namespace

std::span<const OnnxRow> element_onnx_rows() { return kElementRows; }

}  // namespace octet
