// Functions of floats that look at their sign, at NaN and infinities, or that go by logarithms.
#include <cmath>
#include <numbers>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// The operands in the dtype that the graph recorded for the result.
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

// -0 is negative, too: 1 / -0 is.
int is_negative(Steps& s, int x) {
  const int zero = s.number(0, x);
  return s.where(s.compare("eq", x, zero), s.compare("lt", s.unary("reciprocal", x), zero),
                 s.compare("lt", x, zero));
}

void import_signbit(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self();
  s.give(is_floating_point(s.dtype(x)) ? is_negative(s, x) : s.compare("lt", x, s.number(0, x)));
}

void import_copysign(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const auto [a, b] = operands_of_reals(s, node);
  const int size = s.unary("abs", a);
  s.give(s.where(is_negative(s, b), s.unary("neg", size), size));
}

// NaN counts as missing.
void emit_known_extreme(Importer& importer, const Node& node, const char* function) {
  Steps s(importer, node);
  const auto [a, b] = operands_of_reals(s, node);
  const int both = s.arithmetic(function, a, b);
  s.give(s.where(s.compare("ne", a, a), b, s.where(s.compare("ne", b, b), a, both)));
}
void import_fmax(Importer& importer, const Node& node) {
  emit_known_extreme(importer, node, "maximum");
}
void import_fmin(Importer& importer, const Node& node) {
  emit_known_extreme(importer, node, "minimum");
}

void import_heaviside(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int x = s.self(), at_zero = s.operand("values");
  const int step = s.cast(s.compare("gt", x, s.number(0, x)), s.dtype(x));
  const int known = s.where(s.compare("eq", x, s.number(0, x)), at_zero, step);
  s.give(known);
}

void import_hypot(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const auto [a, b] = operands_of_reals(s, node);
  s.give(s.unary("sqrt", s.add(s.mul(a, a), s.mul(b, b))));
}

// log(base^a + base^b); where one is infinite, the larger.
void emit_sum_of_powers(Importer& importer, const Node& node, double base) {
  Steps s(importer, node);
  const auto [a, b] = operands_of_reals(s, node);
  const int most = s.arithmetic("maximum", a, b), apart = s.unary("abs", s.sub(a, b));
  const int less = s.unary("exp", s.mul(apart, s.number(-std::log(base), apart)));
  const int more = s.add(most, s.mul(s.unary("log1p", less), s.number(1 / std::log(base), less)));
  s.give(s.where(s.compare("eq", s.unary("abs", most), s.number(INFINITY, most)), most, more));
}
void import_logaddexp(Importer& importer, const Node& node) {
  emit_sum_of_powers(importer, node, std::numbers::e);
}
void import_logaddexp2(Importer& importer, const Node& node) {
  emit_sum_of_powers(importer, node, 2);
}

// sin(pi x) / (pi x)
void import_sinc(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int given = s.self();
  const int x = is_floating_point(s.dtype(given)) ? given : s.cast(given, DType::kFloat32);
  const int angle = s.mul(x, s.number(std::numbers::pi, x));
  s.give(s.where(s.compare("eq", x, s.number(0, x)), s.number(1, x),
                 s.div(s.unary("sin", angle), angle)));
}

void emit_infinity(Importer& importer, const Node& node, double which) {
  Steps s(importer, node);
  const int x = s.self();
  const int wide = is_floating_point(s.dtype(x)) ? x : s.cast(x, DType::kFloat32);
  s.give(s.compare("eq", wide, s.number(which, wide)));
}
void import_isposinf(Importer& importer, const Node& node) {
  emit_infinity(importer, node, INFINITY);
}
void import_isneginf(Importer& importer, const Node& node) {
  emit_infinity(importer, node, -INFINITY);
}

// A real number's angle: 0, or pi where it is negative; NaN stays.
void import_angle(Importer& importer, const Node& node) {
  Steps s(importer, node);
  const int given = s.self();
  const int x = is_floating_point(s.dtype(given)) ? given : s.cast(given, DType::kFloat32);
  const int turned =
      s.where(s.compare("lt", x, s.number(0, x)), s.number(std::numbers::pi, x), s.number(0, x));
  s.give(s.where(s.compare("ne", x, x), x, s.cast(s.expand(turned, s.sizes(x)), s.dtype(x))));
}

constexpr ImportRow kFloatFunctionRows[] = {
    {"aten.signbit", import_signbit},     {"aten.copysign", import_copysign},
    {"aten.fmax", import_fmax},           {"aten.fmin", import_fmin},
    {"aten.heaviside", import_heaviside}, {"aten.hypot", import_hypot},
    {"aten.logaddexp", import_logaddexp}, {"aten.logaddexp2", import_logaddexp2},
    {"aten.sinc", import_sinc},           {"aten.isposinf", import_isposinf},
    {"aten.isneginf", import_isneginf},   {"aten.angle", import_angle},
};

}  // namespace

std::span<const ImportRow> float_function_import_rows() { return kFloatFunctionRows; }

}  // namespace octet
