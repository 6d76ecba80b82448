// Holds the table of functions.
#include "lowering/program/real_functions.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace octet {
namespace {

double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); }

double softplus(double x, double beta, double threshold) {
  return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
}

// 0 for NaN, as in torch.
double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(M_SQRT2 * M_2_SQRTPI * 0.5 * (x + 0.044715 * x * x * x)));
}

// std::lgamma writes a global, the sign.
double log_gamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

constexpr double kSeluAlpha = 1.6732632423543772848170429916717,
                 kSeluScale = 1.0507009873554804934193349852946;

#define OCTET_OF_X(expression) [](double x, double, double) -> double { return expression; }
#define OCTET_OF_X_ALPHA(expression) \
  [](double x, double alpha, double) -> double { return expression; }

// clang-format off
constexpr RealFunction kFunctions[] = {
    {"sigmoid",     OCTET_OF_X(1 / (1 + std::exp(-x))), 1},
    {"tanh",        OCTET_OF_X(std::tanh(x)), 1},
    {"hardswish",   OCTET_OF_X(x * std::min(std::max(x + 3, 0.0), 6.0) / 6), 1},
    {"hardsigmoid", OCTET_OF_X(std::min(std::max(x + 3, 0.0), 6.0) / 6), 1},
    {"silu",        OCTET_OF_X(x / (1 + std::exp(-x))), 1},
    {"gelu",        OCTET_OF_X(0.5 * x * (1 + std::erf(x * M_SQRT1_2))), 1},
    {"gelu_tanh",   OCTET_OF_X(gelu_tanh(x)), 1},
    {"leaky_relu",  OCTET_OF_X_ALPHA(x >= 0 ? x : alpha * x), 0.01},
    {"elu",         OCTET_OF_X_ALPHA(x > 0 ? x : alpha * std::expm1(x)), 1},
    {"selu",        OCTET_OF_X(kSeluScale * (x > 0 ? x : kSeluAlpha * std::expm1(x))), 1},
    {"celu",        OCTET_OF_X_ALPHA(x > 0 ? x : alpha * std::expm1(x / alpha)), 1},
    {"softplus",    softplus, 1},
    {"softsign",    OCTET_OF_X(x / (1 + std::fabs(x))), 1},
    {"mish",        OCTET_OF_X(x * std::tanh(std::log1p(std::exp(x)))), 1},
    {"log_sigmoid", OCTET_OF_X(log_sigmoid(x)), 1},
    {"exp",         OCTET_OF_X(std::exp(x)), 1},
    {"exp2",        OCTET_OF_X(std::exp2(x)), 1},
    {"expm1",       OCTET_OF_X(std::expm1(x)), 1},
    {"log",         OCTET_OF_X(std::log(x)), 1},
    {"log2",        OCTET_OF_X(std::log2(x)), 1},
    {"log10",       OCTET_OF_X(std::log10(x)), 1},
    {"log1p",       OCTET_OF_X(std::log1p(x)), 1},
    {"erf",         OCTET_OF_X(std::erf(x)), 1},
    {"erfc",        OCTET_OF_X(std::erfc(x)), 1},
    {"lgamma",      OCTET_OF_X(log_gamma(x)), 1},
    {"sin",         OCTET_OF_X(std::sin(x)), 1},
    {"cos",         OCTET_OF_X(std::cos(x)), 1},
    {"tan",         OCTET_OF_X(std::tan(x)), 1},
    {"asin",        OCTET_OF_X(std::asin(x)), 1},
    {"acos",        OCTET_OF_X(std::acos(x)), 1},
    {"atan",        OCTET_OF_X(std::atan(x)), 1},
    {"sinh",        OCTET_OF_X(std::sinh(x)), 1},
    {"cosh",        OCTET_OF_X(std::cosh(x)), 1},
    {"asinh",       OCTET_OF_X(std::asinh(x)), 1},
    {"acosh",       OCTET_OF_X(std::acosh(x)), 1},
    {"atanh",       OCTET_OF_X(std::atanh(x)), 1},
    {"neg",         OCTET_OF_X(-x), 1},
    {"abs",         OCTET_OF_X(std::fabs(x)), 1},
    {"sign",        OCTET_OF_X(sign_of(x)), 1},
    {"square",      OCTET_OF_X(x * x), 1},
    {"reciprocal",  OCTET_OF_X(1 / x), 1},
    {"sqrt",        OCTET_OF_X(std::sqrt(x)), 1},
    {"rsqrt",       OCTET_OF_X(1 / std::sqrt(x)), 1},
    {"pow",         OCTET_OF_X_ALPHA(std::pow(x, alpha)), 1},
    {"ceil",        OCTET_OF_X(std::ceil(x)), 1},
    {"floor",       OCTET_OF_X(std::floor(x)), 1},
    {"round",       OCTET_OF_X(std::nearbyint(x)), 1},
    {"trunc",       OCTET_OF_X(std::trunc(x)), 1},
};
// clang-format on
#undef OCTET_OF_X
#undef OCTET_OF_X_ALPHA

}  // namespace

std::span<const RealFunction> real_functions() { return kFunctions; }

const RealFunction* find_real_function(std::string_view name) {
  const RealFunction* found =
      std::find_if(std::begin(kFunctions), std::end(kFunctions),
                   [name](const RealFunction& f) { return f.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace octet
