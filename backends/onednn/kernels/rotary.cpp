// A walk over the first halves.
#include "backends/onednn/kernels/rotary.h"

#include "backends/common/rotary_row.h"
#include "backends/onednn/kernels/walk.h"
#include "core/base/error.h"

namespace octet::onednn {

Loop rotary_loop(const Stored& x, const Dims& factors, const Stored& y) {
  const int64_t half = x.shape.back() / 2;
  Dims halves = x.shape;
  halves.back() = half;
  const Walk walk = plan_walk(halves, y.strides, x.strides, factors);
  const std::array<int64_t, 3> inner = {1, 1, 1};
  OCTET_ASSERT(walk.counts.back() == half && walk.steps.back() == inner, "the halves have gaps");
  return [=](std::byte* const* arguments) {
    const float* from = reinterpret_cast<const float*>(arguments[0]);
    const float* cosine = reinterpret_cast<const float*>(arguments[1]);
    const float* sine = reinterpret_cast<const float*>(arguments[2]);
    float* to = reinterpret_cast<float*>(arguments[3]);
    for_each_run(walk, [&](const std::array<int64_t, 3>& at, int64_t count) {
      run_vectorised([&]() __attribute__((always_inline)) {
        rotate_row(from + at[1], cosine + at[2], sine + at[2], to + at[0], half, count);
      });
    });
  };
}

}  // namespace octet::onednn
