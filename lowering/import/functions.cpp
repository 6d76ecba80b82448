// Functions of one and two elements beyond arithmetic: rows of names, and those that other
// functions compose.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// The function of Program's `unary` or `binary` that an ATen op is.
struct FunctionRow {
  std::string_view op;
  const char* function;
};

const char* function_of(const Node& node, std::span<const FunctionRow> rows) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const FunctionRow& candidate) {
    return node.is(candidate.op);
  });
  return row == rows.end() ? nullptr : row->function;
}

// ---- one operand

constexpr FunctionRow kUnary[] = {
    {"aten.erf", "erf"},     {"aten.erfc", "erfc"},
    {"aten.log", "log"},     {"aten.log2", "log2"},
    {"aten.log10", "log10"}, {"aten.log1p", "log1p"},
    {"aten.expm1", "expm1"}, {"aten.exp2", "exp2"},
    {"aten.sin", "sin"},     {"aten.cos", "cos"},
    {"aten.tan", "tan"},     {"aten.asin", "asin"},
    {"aten.acos", "acos"},   {"aten.atan", "atan"},
    {"aten.sinh", "sinh"},   {"aten.cosh", "cosh"},
    {"aten.asinh", "asinh"}, {"aten.acosh", "acosh"},
    {"aten.atanh", "atanh"}, {"aten.ceil", "ceil"},
    {"aten.floor", "floor"}, {"aten.trunc", "trunc"},
    {"aten.fix", "trunc"},   {"aten.sign", "sign"},
    {"aten.sgn", "sign"},    {"aten.reciprocal", "reciprocal"},
    {"aten.mish", "mish"},   {"aten.selu", "selu"},
};

// A function of reals: integers are read as such, and the result is what the graph recorded.
int function_of_reals(Steps& s, const char* function, int x,
                      std::optional<double> alpha = std::nullopt) {
  return s.unary(function, is_floating_point(s.dtype(x)) ? x : s.cast(x, DType::kFloat32), alpha);
}

void import_unary(Importer& importer, const Node& node) {
  Steps s(importer, node);
  s.give(function_of_reals(s, function_of(node, kUnary), s.self()));
}

// To `decimals` digits behind the point.
void import_round(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  const int64_t decimals = node.int_or("decimals", 0);
  if (!is_floating_point(s.dtype(x))) return s.give(x);
  if (decimals == 0) return s.give(s.unary("round", x));
  const double unit = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const int factor = s.number(unit, x);
  s.give(decimals > 0 ? s.div(s.unary("round", s.mul(x, factor)), factor)
                      : s.mul(s.unary("round", s.div(x, factor)), factor));
}

void import_square(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  s.give(s.mul(x, x));
}

void import_frac(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  s.give(s.sub(x, s.unary("trunc", x)));
}

void import_celu(Importer& importer, const Node& node) {
  Steps s(importer, node);
  s.give(s.unary("celu", s.self(), node.float_or("alpha", 1)));
}

void import_softplus(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  Attributes attributes;
  attributes["fn"] = std::string("softplus");
  attributes["alpha"] = node.float_or("beta", 1);
  attributes["threshold"] = node.float_or("threshold", 20);
  s.give(s.op("unary", {x}, s.sizes(x), s.dtype(x), std::move(attributes)));
}

// aten.log_sigmoid_forward has a second result, for its gradient.
void import_log_sigmoid(Importer& importer, const Node& node) {
  if (node.outputs().size() > 1 && !node.outputs()[1]->is_unused())
    return importer.refuse(node, "whose buffer is used");
  Steps s(importer, node);
  s.give(s.unary("log_sigmoid", s.self()));
}

void import_logit(Importer& importer, const Node& node) {
  Steps s(importer, node);
  int x = s.self();
  const Argument* eps = node.find_argument("eps");
  if (eps != nullptr && !eps->is_none()) {
    const double margin = node.float_or("eps", 0);
    x = s.clamp(x, margin, 1 - margin);
  }
  s.give(s.unary("log", s.div(x, s.sub(s.number(1, x), x))));
}

// Comparisons are such that NaNs stay.
int within(Steps& s, int x, double lambda) {
  return s.compare("le", s.unary("abs", x), s.number(lambda, x));
}
void import_hardshrink(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  s.give(s.where(within(s, x, node.float_or("lambd", 0.5)), s.number(0, x), x));
}
void import_softshrink(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  const double lambda = node.float_or("lambd", 0.5);
  const int nearer = s.sub(x, s.mul(s.unary("sign", x), s.number(lambda, x)));
  s.give(s.where(within(s, x, lambda), s.number(0, x), nearer));
}
void import_threshold(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  s.give(s.where(s.compare("le", x, s.number(node.float_or("threshold", 0), x)),
                 s.number(node.float_or("value", 0), x), x));
}

void import_nan_to_num(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  if (s.dtype(x) != DType::kFloat32) return importer.refuse(node, "of another dtype than float32");
  const double most = std::numeric_limits<float>::max();
  const int known = s.where(s.compare("ne", x, x), s.number(node.float_or("nan", 0), x), x);
  const int below = s.where(s.compare("eq", known, s.number(INFINITY, x)),
                            s.number(node.float_or("posinf", most), x), known);
  s.give(s.where(s.compare("eq", below, s.number(-INFINITY, x)),
                 s.number(node.float_or("neginf", -most), x), below));
}

// ---- tests of one operand, to booleans

constexpr FunctionRow kTests[] = {
    {"aten.isnan", "isnan"},
    {"aten.isinf", "isinf"},
    {"aten.isfinite", "isfinite"},
    {"aten.logical_not", "logical_not"},
};

void import_test(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  Attributes attributes;
  attributes["fn"] = std::string(function_of(node, kTests));
  s.give(s.op("unary", {x}, s.sizes(x), DType::kBool, std::move(attributes)));
}

void import_bitwise_not(Importer& importer, const Node& node) {
  Steps s(importer, node);
  s.give(s.unary("bitwise_not", s.self()));
}

// ---- two operands

constexpr FunctionRow kBinary[] = {
    {"aten.eq", "eq"},
    {"aten.ne", "ne"},
    {"aten.not_equal", "ne"},
    {"aten.lt", "lt"},
    {"aten.less", "lt"},
    {"aten.le", "le"},
    {"aten.less_equal", "le"},
    {"aten.gt", "gt"},
    {"aten.greater", "gt"},
    {"aten.ge", "ge"},
    {"aten.greater_equal", "ge"},
    {"aten.logical_and", "logical_and"},
    {"aten.logical_or", "logical_or"},
    {"aten.logical_xor", "logical_xor"},
    {"aten.bitwise_and", "bitwise_and"},
    {"aten.__and__", "bitwise_and"},
    {"aten.bitwise_or", "bitwise_or"},
    {"aten.__or__", "bitwise_or"},
    {"aten.bitwise_xor", "bitwise_xor"},
    {"aten.__xor__", "bitwise_xor"},
    {"aten.bitwise_left_shift", "left_shift"},
    {"aten.__lshift__", "left_shift"},
    {"aten.bitwise_right_shift", "right_shift"},
    {"aten.__rshift__", "right_shift"},
    {"aten.pow", "pow"},
    {"aten.remainder", "remainder"},
    {"aten.fmod", "fmod"},
    {"aten.floor_divide", "div_floor"},
    {"aten.atan2", "atan2"},
};

void emit_binary_function(Importer& importer, const Node& node, const char* function) {
  Steps s(importer, node);
  const int a = s.self(), b = s.operand({"other", "exponent"});
  if (a < 0 || b < 0) return importer.refuse(node, "without two operands");
  const Value* value = node.outputs().front();
  const DType dtype = value->meta ? value->meta->dtype : s.dtype(a);
  s.give(s.binary(function, a, b, dtype));
}

void import_binary(Importer& importer, const Node& node) {
  emit_binary_function(importer, node, function_of(node, kBinary));
}

// With a number as exponent it is a function of one operand; see pointwise.cpp.
void import_xlogy(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int a = s.self(), b = s.operand("other");
  s.give(s.where(s.compare("eq", a, s.number(0, a)), s.number(0, b), s.mul(a, s.unary("log", b))));
}

void import_clamp_by_tensors(Importer& importer, const Node& node, const char* low,
                             const char* high) {
  Steps s(importer, node);
  int x = s.self();
  if (const int least = low == nullptr ? -1 : s.operand(low); least >= 0)
    x = s.arithmetic("maximum", x, least);
  if (const int most = high == nullptr ? -1 : s.operand(high); most >= 0)
    x = s.arithmetic("minimum", x, most);
  s.give(x);
}

// self + value * a * b, self + value * a / b
void import_addcmul(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int product = s.mul(s.operand("tensor1"), s.operand("tensor2"));
  s.give(s.add(s.self(), s.mul(product, s.number(node.float_or("value", 1), product))));
}
void import_addcdiv(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int ratio = s.div(s.operand("tensor1"), s.operand("tensor2"));
  s.give(s.add(s.self(), s.mul(ratio, s.number(node.float_or("value", 1), ratio))));
}

// self + weight * (end - self)
void import_lerp(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self(), weight = s.operand("weight");
  s.give(s.add(x, s.mul(s.sub(s.operand("end"), x), s.cast(weight, s.dtype(x)))));
}

constexpr ImportRow kRows[] = {
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
    {"aten.xlogy", import_xlogy},
    {"aten.special_xlogy", import_xlogy},
    {"aten.addcmul", import_addcmul},
    {"aten.addcdiv", import_addcdiv},
    {"aten.lerp", import_lerp},
};

}  // namespace

void import_clamp_tensors(Importer& importer, const Node& node) {
  node.is("aten.clamp_max")   ? import_clamp_by_tensors(importer, node, nullptr, "max")
  : node.is("aten.clamp_min") ? import_clamp_by_tensors(importer, node, "min", nullptr)
                              : import_clamp_by_tensors(importer, node, "min", "max");
}

void import_binary_function(Importer& importer, const Node& node, const char* function) {
  emit_binary_function(importer, node, function);
}

std::span<const ImportRow> function_import_rows() {
  static const std::vector<ImportRow> rows = [] {
    std::vector<ImportRow> all(std::begin(kRows), std::end(kRows));
    for (const FunctionRow& row : kUnary) all.push_back({row.op.data(), import_unary});
    for (const FunctionRow& row : kTests) all.push_back({row.op.data(), import_test});
    // pow has its own row, for numbers
    for (const FunctionRow& row : kBinary)
      if (row.op != "aten.pow") all.push_back({row.op.data(), import_binary});
    return all;
  }();
  return rows;
}

}  // namespace octet
