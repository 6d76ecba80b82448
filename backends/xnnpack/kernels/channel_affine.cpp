// See the header.
#include "backends/xnnpack/kernels/channel_affine.h"

#include "backends/common/byte_rounding.h"
#include "backends/common/vectorised.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
namespace {

// step: of the numbers from element to element, 0 or 1.
template <int64_t kStep, typename X, typename Y>
[[gnu::always_inline]] inline void affine_loop(const X* x, Y* y, int64_t count, const float* factor,
                                               const float* shift, ByteOutput output) {
  const X* __restrict from = x;
  Y* __restrict to = y;
  const float* __restrict a = factor;
  const float* __restrict b = shift;
  for (int64_t i = 0; i < count; ++i)
    store_real(static_cast<float>(from[i]) * a[i * kStep] + b[i * kStep], to + i, output);
}

template <typename X, typename Y>
void run_typed(const ChannelAffine& p, const std::byte* from, std::byte* to, pthreadpool_t pool) {
  const ByteOutput output = p.to ? byte_output(p.to->scale, p.to->zero_point) : ByteOutput{};
  const bool is_last = p.inner == 1;
  const int64_t width = is_last ? p.channels : p.inner,
                rows = is_last ? p.outer : p.outer * p.channels;
  for_parts(pool, rows, rows_per_part(width), [&](int64_t first, int64_t last) {
    run_vectorised([=, &p, channels = p.channels, factor = p.factor.data(),
                    shift = p.shift.data()]() __attribute__((always_inline)) {
      for (int64_t row = first; row < last; ++row) {
        const X* x = reinterpret_cast<const X*>(from) + row * width;
        Y* y = reinterpret_cast<Y*>(to) + row * width;
        const int64_t channel = is_last ? 0 : row % channels;
        if (is_last)
          affine_loop<1>(x, y, width, factor, shift, output);
        else
          affine_loop<0>(x, y, width, factor + channel, shift + channel, output);
      }
    });
  });
}

}  // namespace

void run(const ChannelAffine& affine, const std::byte* from, std::byte* to, pthreadpool_t pool) {
  with_elements(affine.is_byte, affine.to.has_value(),
                [&]<typename X, typename Y>(X, Y) { run_typed<X, Y>(affine, from, to, pool); });
}

}  // namespace octet::xnnpack
