// Functions of one tensor's elements.
#include <cmath>
#include <limits>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

// The operand as the result's dtype: functions of reals take integers too.
std::string real_operand(OnnxSteps& s) { return s.cast(s.self(), s.dtype(s.result())); }

constexpr OnnxNameRow kUnary[] = {
    {"aten.abs", "Abs"},
    {"aten.absolute", "Abs"},
    {"aten.acos", "Acos"},
    {"aten.acosh", "Acosh"},
    {"aten.asin", "Asin"},
    {"aten.asinh", "Asinh"},
    {"aten.atan", "Atan"},
    {"aten.atanh", "Atanh"},
    {"aten.ceil", "Ceil"},
    {"aten.cos", "Cos"},
    {"aten.cosh", "Cosh"},
    {"aten.erf", "Erf"},
    {"aten.exp", "Exp"},
    {"aten.floor", "Floor"},
    {"aten.hardswish", "HardSwish"},
    {"aten.log", "Log"},
    {"aten.neg", "Neg"},
    {"aten.negative", "Neg"},
    {"aten.reciprocal", "Reciprocal"},
    {"aten.relu", "Relu"},
    {"aten.selu", "Selu"},
    {"aten.sgn", "Sign"},
    {"aten.sigmoid", "Sigmoid"},
    {"aten.sign", "Sign"},
    {"aten.sin", "Sin"},
    {"aten.sinh", "Sinh"},
    {"aten.sqrt", "Sqrt"},
    {"aten.tan", "Tan"},
    {"aten.tanh", "Tanh"},
};

void convert_unary(OnnxSteps& s) {
  for (const OnnxNameRow& row : kUnary)
    if (s.node.is(row.op)) return s.give(s.op(row.onnx, {real_operand(s)}));
}

// ---- limits

void give_clip(OnnxSteps& s, const std::string& low, const std::string& high) {
  s.give(s.op("Clip", {real_operand(s), low, high}));
}
void convert_relu6(OnnxSteps& s) { give_clip(s, s.number(0), s.number(6)); }
void convert_hardtanh(OnnxSteps& s) {
  give_clip(s, s.number(s.node.float_or("min_val", -1)), s.number(s.node.float_or("max_val", 1)));
}
// Limits are numbers, or tensors of any shape.
void convert_clamp(OnnxSteps& s) {
  const DType dtype = s.dtype(s.result());
  if (s.node.find_input("min") == nullptr && s.node.find_input("max") == nullptr)
    return give_clip(s, s.operand("min", dtype), s.operand("max", dtype));
  std::string x = real_operand(s);
  if (s.has("min")) x = s.op("Max", {x, s.operand("min", dtype)});
  if (s.has("max")) x = s.op("Min", {x, s.operand("max", dtype)});
  s.give(x);
}
void convert_clamp_min(OnnxSteps& s) {
  s.give(s.op("Max", {real_operand(s), s.operand("min", s.dtype(s.result()))}));
}
void convert_clamp_max(OnnxSteps& s) {
  s.give(s.op("Min", {real_operand(s), s.operand("max", s.dtype(s.result()))}));
}

// ---- activations

void convert_hardsigmoid(OnnxSteps& s) {
  s.give(s.op("HardSigmoid", {real_operand(s)}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}}));
}

void convert_leaky_relu(OnnxSteps& s) {
  s.give(s.op("LeakyRelu", {real_operand(s)},
              {{"alpha", static_cast<float>(s.node.float_or("negative_slope", 0.01))}}));
}

void convert_elu(OnnxSteps& s) {
  if (s.node.float_or("input_scale", 1) != 1) return s.refuse("with an input_scale");
  const float alpha = static_cast<float>(s.node.float_or("alpha", 1));
  const double scale = s.node.float_or("scale", 1);
  const std::string y = s.op("Elu", {real_operand(s)}, {{"alpha", alpha}});
  s.give(scale == 1 ? y : s.mul(y, s.number(scale)));
}

void convert_celu(OnnxSteps& s) {
  s.give(s.op("Celu", {real_operand(s)},
              {{"alpha", static_cast<float>(s.node.float_or("alpha", 1))}}));
}

void convert_silu(OnnxSteps& s) {
  const std::string x = real_operand(s);
  s.give(s.mul(x, s.op("Sigmoid", {x})));
}

// Gelu is an operator from opset 20 on.
void convert_gelu(OnnxSteps& s) {
  const std::string x = real_operand(s);
  const bool is_tanh = s.text("approximate") == "tanh";
  if (s.exporter.opset() >= 20)
    return s.give(s.op("Gelu", {x}, {{"approximate", std::string(is_tanh ? "tanh" : "none")}}));
  if (!is_tanh) {
    const std::string reach = s.op("Erf", {s.div(x, s.number(std::sqrt(2.0)))});
    return s.give(s.mul(s.mul(x, s.add(reach, s.number(1))), s.number(0.5)));
  }
  const std::string cube = s.mul(s.mul(x, s.mul(x, x)), s.number(0.044715));
  const std::string reach =
      s.op("Tanh", {s.mul(s.add(x, cube), s.number(std::sqrt(2 / std::acos(-1.0))))});
  s.give(s.mul(s.mul(x, s.add(reach, s.number(1))), s.number(0.5)));
}

// The slope of channels stands behind dimension 1.
void convert_prelu(OnnxSteps& s) {
  Value* weight = s.value({"weight"});
  std::string slope = s.exporter.name_of(weight);
  const size_t rank = s.rank(s.self());
  if (s.rank(weight) == 1 && rank > 2) {
    std::vector<int64_t> axes;
    for (size_t d = 1; d + 1 < rank; ++d) axes.push_back(static_cast<int64_t>(d));
    slope = s.unsqueeze(slope, axes);
  }
  s.give(s.op("PRelu", {s.x(), slope}));
}

std::string softplus(OnnxSteps& s, const std::string& x) { return s.op("Softplus", {x}); }

// Beyond the threshold the two differ by less than a float's last bit.
void convert_softplus(OnnxSteps& s) {
  const double beta = s.node.float_or("beta", 1);
  const std::string x = real_operand(s);
  if (beta == 1) return s.give(softplus(s, x));
  s.give(s.div(softplus(s, s.mul(x, s.number(beta))), s.number(beta)));
}

void convert_mish(OnnxSteps& s) {
  const std::string x = real_operand(s);
  if (s.exporter.opset() >= 18) return s.give(s.op("Mish", {x}));
  s.give(s.mul(x, s.op("Tanh", {softplus(s, x)})));
}

void convert_log_sigmoid(OnnxSteps& s) {
  s.give(s.op("Neg", {softplus(s, s.op("Neg", {real_operand(s)}))}));
}

void give_shrunk(OnnxSteps& s, float lambda, float bias) {
  s.give(s.op("Shrink", {real_operand(s)}, {{"lambd", lambda}, {"bias", bias}}));
}
void convert_hardshrink(OnnxSteps& s) {
  give_shrunk(s, static_cast<float>(s.node.float_or("lambd", 0.5)), 0);
}
void convert_softshrink(OnnxSteps& s) {
  const float lambda = static_cast<float>(s.node.float_or("lambd", 0.5));
  give_shrunk(s, lambda, lambda);
}

void convert_threshold(OnnxSteps& s) {
  const std::string x = real_operand(s);
  const std::string is_above = s.op("Greater", {x, s.number(s.node.float_or("threshold", 0))});
  s.give(s.op("Where", {is_above, x, s.number(s.node.float_or("value", 0))}));
}

// ---- composed

void convert_rsqrt(OnnxSteps& s) { s.give(s.op("Reciprocal", {s.op("Sqrt", {real_operand(s)})})); }
void convert_square(OnnxSteps& s) {
  const std::string x = real_operand(s);
  s.give(s.mul(x, x));
}
void convert_exp2(OnnxSteps& s) { s.give(s.op("Pow", {s.number(2), real_operand(s)})); }
void give_log(OnnxSteps& s, double base) {
  s.give(s.div(s.op("Log", {real_operand(s)}), s.number(std::log(base))));
}
void convert_log2(OnnxSteps& s) { give_log(s, 2); }
void convert_log10(OnnxSteps& s) { give_log(s, 10); }
void convert_log1p(OnnxSteps& s) { s.give(s.op("Log", {s.add(real_operand(s), s.number(1))})); }
void convert_expm1(OnnxSteps& s) { s.give(s.sub(s.op("Exp", {real_operand(s)}), s.number(1))); }
void convert_erfc(OnnxSteps& s) { s.give(s.sub(s.number(1), s.op("Erf", {real_operand(s)}))); }

std::string truncated(OnnxSteps& s, const std::string& x) {
  return s.mul(s.op("Sign", {x}), s.op("Floor", {s.op("Abs", {x})}));
}
void convert_trunc(OnnxSteps& s) { s.give(truncated(s, real_operand(s))); }
void convert_frac(OnnxSteps& s) {
  const std::string x = real_operand(s);
  s.give(s.sub(x, truncated(s, x)));
}
void convert_round(OnnxSteps& s) {
  const double unit = std::pow(10.0, static_cast<double>(s.node.int_or("decimals", 0)));
  if (!is_floating_point(s.dtype(s.self()))) return s.give(s.x());
  if (unit == 1) return s.give(s.op("Round", {s.x()}));
  s.give(s.div(s.op("Round", {s.mul(s.x(), s.number(unit))}), s.number(unit)));
}
void convert_logit(OnnxSteps& s) {
  std::string x = real_operand(s);
  const double eps = s.node.float_or("eps", 0);
  if (s.has("eps")) x = s.op("Clip", {x, s.number(eps), s.number(1 - eps)});
  s.give(s.op("Log", {s.div(x, s.sub(s.number(1), x))}));
}

// ---- tests of elements

void convert_isnan(OnnxSteps& s) { s.give(s.op("IsNaN", {s.x()})); }
void convert_isinf(OnnxSteps& s) { s.give(s.op("IsInf", {s.x()})); }
void convert_isfinite(OnnxSteps& s) {
  s.give(s.op("Not", {s.op("Or", {s.op("IsNaN", {s.x()}), s.op("IsInf", {s.x()})})}));
}
void convert_nan_to_num(OnnxSteps& s) {
  const double most = std::numeric_limits<float>::max();
  if (s.dtype(s.self()) != DType::kFloat32) return s.refuse("of another dtype than float32");
  const std::string x =
      s.op("Where", {s.op("IsNaN", {s.x()}), s.number(s.node.float_or("nan", 0)), s.x()});
  s.give(s.op("Clip", {x, s.number(s.node.float_or("neginf", -most)),
                       s.number(s.node.float_or("posinf", most))}));
}
void convert_logical_not(OnnxSteps& s) { s.give(s.op("Not", {s.cast(s.self(), DType::kBool)})); }
void convert_bitwise_not(OnnxSteps& s) {
  if (s.dtype(s.self()) == DType::kBool) return convert_logical_not(s);
  if (s.exporter.need(s.node, 18, "operators of bits")) s.give(s.op("BitwiseNot", {s.x()}));
}

constexpr OnnxRow kFunctionRows[] = {
    {"aten.abs", convert_unary},
    {"aten.absolute", convert_unary},
    {"aten.acos", convert_unary},
    {"aten.acosh", convert_unary},
    {"aten.asin", convert_unary},
    {"aten.asinh", convert_unary},
    {"aten.atan", convert_unary},
    {"aten.atanh", convert_unary},
    {"aten.ceil", convert_unary},
    {"aten.cos", convert_unary},
    {"aten.cosh", convert_unary},
    {"aten.erf", convert_unary},
    {"aten.exp", convert_unary},
    {"aten.floor", convert_unary},
    {"aten.hardswish", convert_unary},
    {"aten.log", convert_unary},
    {"aten.neg", convert_unary},
    {"aten.negative", convert_unary},
    {"aten.reciprocal", convert_unary},
    {"aten.relu", convert_unary},
    {"aten.selu", convert_unary},
    {"aten.sgn", convert_unary},
    {"aten.sigmoid", convert_unary},
    {"aten.sign", convert_unary},
    {"aten.sin", convert_unary},
    {"aten.sinh", convert_unary},
    {"aten.sqrt", convert_unary},
    {"aten.tan", convert_unary},
    {"aten.tanh", convert_unary},
    {"aten.relu6", convert_relu6},
    {"aten.hardtanh", convert_hardtanh},
    {"aten.clamp", convert_clamp},
    {"aten.clip", convert_clamp},
    {"aten.clamp_min", convert_clamp_min},
    {"aten.clamp_max", convert_clamp_max},
    {"aten.hardsigmoid", convert_hardsigmoid},
    {"aten.leaky_relu", convert_leaky_relu},
    {"aten.elu", convert_elu},
    {"aten.celu", convert_celu},
    {"aten.silu", convert_silu},
    {"aten.gelu", convert_gelu},
    {"aten.prelu", convert_prelu},
    {"aten.softplus", convert_softplus},
    {"aten.mish", convert_mish},
    {"aten.log_sigmoid", convert_log_sigmoid},
    {"aten.log_sigmoid_forward", convert_log_sigmoid},
    {"aten.hardshrink", convert_hardshrink},
    {"aten.softshrink", convert_softshrink},
    {"aten.threshold", convert_threshold},
    {"aten.rsqrt", convert_rsqrt},
    {"aten.square", convert_square},
    {"aten.exp2", convert_exp2},
    {"aten.log2", convert_log2},
    {"aten.log10", convert_log10},
    {"aten.log1p", convert_log1p},
    {"aten.expm1", convert_expm1},
    {"aten.erfc", convert_erfc},
    {"aten.trunc", convert_trunc},
    {"aten.fix", convert_trunc},
    {"aten.frac", convert_frac},
    {"aten.round", convert_round},
    {"aten.logit", convert_logit},
    {"aten.special_logit", convert_logit},
    {"aten.isnan", convert_isnan},
    {"aten.isinf", convert_isinf},
    {"aten.isfinite", convert_isfinite},
    {"aten.nan_to_num", convert_nan_to_num},
    {"aten.logical_not", convert_logical_not},
    {"aten.bitwise_not", convert_bitwise_not},
};

}  // namespace

std::span<const OnnxRow> function_onnx_rows() { return kFunctionRows; }

}  // namespace octet
