// The innermost runs, compiled for several instruction sets.
#include "backends/onednn/kernels/real_loops.h"

#include <limits>

#include "backends/onednn/kernels/walk.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

struct RealRow {
  float factor_a, factor_b;
  float low, high;
};

// Steps of 1 and 0 are known to the compiler, others are not.
template <RealFunction kFunction, int kStepA, int kStepB>
[[gnu::always_inline]] inline void real_row(const float* a, int64_t step_a, const float* b,
                                            int64_t step_b, float* y, int64_t count, RealRow p) {
  if (kStepA >= 0) step_a = kStepA;
  if (kStepB >= 0) step_b = kStepB;
  for (int64_t i = 0; i < count; ++i) {
    const float from_a = a[i * step_a], from_b = b[i * step_b];
    float v = kFunction == RealFunction::kSum ? from_a * p.factor_a + from_b * p.factor_b
                                              : from_a * from_b;
    v = v < p.low ? p.low : v;
    y[i] = v > p.high ? p.high : v;
  }
}

template <RealFunction kFunction>
[[gnu::always_inline]] inline void real_row(const float* a, int64_t step_a, const float* b,
                                            int64_t step_b, float* y, int64_t count, RealRow p) {
  if (step_a == 1 && step_b == 1) return real_row<kFunction, 1, 1>(a, 1, b, 1, y, count, p);
  if (step_a == 1 && step_b == 0) return real_row<kFunction, 1, 0>(a, 1, b, 0, y, count, p);
  if (step_a == 0 && step_b == 1) return real_row<kFunction, 0, 1>(a, 0, b, 1, y, count, p);
  real_row<kFunction, -1, -1>(a, step_a, b, step_b, y, count, p);
}

template <RealFunction kFunction>
Loop walk_loop(const Walk& walk, const RealRow& p) {
  const int64_t step_a = walk.steps.back()[1], step_b = walk.steps.back()[2];
  return [=](std::byte* const* arguments) {
    const float* a = reinterpret_cast<const float*>(arguments[0]);
    const float* b = reinterpret_cast<const float*>(arguments[1]);
    float* y = reinterpret_cast<float*>(arguments[2]);
    for_each_run(walk, [&](const std::array<int64_t, 3>& offsets, int64_t count) {
      run_vectorised([&]() __attribute__((always_inline)) {
        real_row<kFunction>(a + offsets[1], step_a, b + offsets[2], step_b, y + offsets[0], count,
                            p);
      });
    });
  };
}

}  // namespace

Loop real_loop(RealFunction function, const Stored& a, float factor_a, const Stored& b,
               float factor_b, const Stored& to, const Clamp& clamp) {
  const Walk walk = plan_walk(to.shape, to.strides, a.strides, b.strides);
  OCTET_ASSERT(walk.steps.back()[0] == 1 || walk.counts.back() == 1, "the output has gaps");
  const float infinity = std::numeric_limits<float>::infinity();
  const RealRow p = {factor_a, factor_b, clamp.min ? static_cast<float>(*clamp.min) : -infinity,
                     clamp.max ? static_cast<float>(*clamp.max) : infinity};
  return function == RealFunction::kSum ? walk_loop<RealFunction::kSum>(walk, p)
                                        : walk_loop<RealFunction::kProduct>(walk, p);
}

}  // namespace octet::onednn
