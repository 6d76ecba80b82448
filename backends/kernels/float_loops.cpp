// The table of vectorized functions.
#include "backends/kernels/float_loops.h"

#include <cmath>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"

namespace octet {
namespace {

template <typename Function>
[[gnu::always_inline]] inline void map_floats(const float* x, float* y, int64_t count,
                                              const Function& function) {
  run_vectorized([=]() __attribute__((always_inline)) {
    const float* __restrict from = x;
    float* __restrict to = y;
    for (int64_t i = 0; i < count; ++i) to[i] = function(from[i]);
  });
}

#define OCTET_FLOAT_LOOP(expression)                                                        \
  [](const float* from, float* to, int64_t count) {                                         \
    map_floats(from, to, count,                                                             \
               [](float x) __attribute__((always_inline)) -> float { return expression; }); \
  }

struct FloatLoopRow {
  std::string_view fn;
  FloatLoop loop;
};

constexpr FloatLoopRow kFloatLoops[] = {
    {"exp", OCTET_FLOAT_LOOP(exponential(x))},
    {"tanh", OCTET_FLOAT_LOOP(hyperbolic_tangent(x))},
    {"erf", OCTET_FLOAT_LOOP(error_function(x))},
    {"sigmoid", OCTET_FLOAT_LOOP(logistic(x))},
    {"silu", OCTET_FLOAT_LOOP(x* logistic(x))},
    {"hardsigmoid", OCTET_FLOAT_LOOP(hard_logistic(x))},
    {"hardswish", OCTET_FLOAT_LOOP(x* hard_logistic(x))},
    {"gelu", OCTET_FLOAT_LOOP(gelu_by_erf(x))},
    {"gelu_tanh", OCTET_FLOAT_LOOP(gelu_by_tanh(x))},
    {"square", OCTET_FLOAT_LOOP(x* x)},
    {"reciprocal", OCTET_FLOAT_LOOP(1.0f / x)},
    {"rsqrt", OCTET_FLOAT_LOOP(1.0f / std::sqrt(x))},
};
#undef OCTET_FLOAT_LOOP

}  // namespace

void FloatFunction::operator()(const float* x, float* y, int64_t count) const {
  if (loop != nullptr) return loop(x, y, count);
  for (int64_t i = 0; i < count; ++i)
    y[i] = static_cast<float>(function->value(double{x[i]}, alpha, threshold));
}

std::optional<FloatFunction> find_float_function(const ProgramOp& unary) {
  const std::string fn = unary.get(attr::kFn);
  const RealFunction* function = find_real_function(fn);
  if (function == nullptr) return std::nullopt;
  FloatFunction found = {nullptr, function, unary.get(attr::kAlpha, function->alpha),
                         unary.get(attr::kThreshold)};
  const std::string name = fn == "pow" && found.alpha == 2 ? "square" : fn;
  for (const FloatLoopRow& row : kFloatLoops)
    if (row.fn == name) found.loop = row.loop;
  return found;
}

}  // namespace octet
