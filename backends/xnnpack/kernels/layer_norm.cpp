// See the header. Sums of bytes and of their squares are exact; those of floats are added in lanes.
#include "backends/xnnpack/kernels/layer_norm.h"

#include <cmath>

#include "backends/common/byte_rounding.h"
#include "backends/common/lanes.h"
#include "backends/common/vectorised.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
namespace {

// y = (x - center) * inverse * weight + bias, in units of x.
struct RowMoments {
  float center;
  float inverse;
};

[[gnu::always_inline]] inline RowMoments moments_of(const float* x, int64_t width,
                                                    const LayerNorm& norm, float) {
  constexpr int64_t kLanes = 32;
  const int64_t whole = width / kLanes * kLanes;
  float sums[kLanes] = {}, squares[kLanes] = {};
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) sums[k] += x[i + k];
  double sum = double{sum_of_lanes(sums)};
  for (int64_t i = whole; i < width; ++i) sum += double{x[i]};
  const float center = norm.is_centered ? static_cast<float>(sum / static_cast<double>(width)) : 0;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) {
      const float d = x[i + k] - center;
      squares[k] += d * d;
    }
  double square = double{sum_of_lanes(squares)};
  for (int64_t i = whole; i < width; ++i) {
    const double d = double{x[i] - center};
    square += d * d;
  }
  return {center, static_cast<float>(
                      1 / std::sqrt(square / static_cast<double>(width) + double{norm.eps}))};
}

[[gnu::always_inline]] inline RowMoments moments_of(const int8_t* x, int64_t width,
                                                    const LayerNorm& norm, float scale) {
  constexpr int64_t kMostSummands = 65536;  // of squares, in 32 bits
  double sum = 0, square = 0;
  for (int64_t first = 0; first < width; first += kMostSummands) {
    const int64_t last = first + kMostSummands < width ? first + kMostSummands : width;
    int32_t part = 0, squares = 0;
    for (int64_t i = first; i < last; ++i) {
      part += x[i];
      squares += int32_t{x[i]} * x[i];
    }
    sum += part;
    square += squares;
  }
  const double count = static_cast<double>(width), step = double{scale},
               center = norm.is_centered ? sum / count : static_cast<double>(norm.zero_point()),
               variance = (square - 2 * sum * center) / count + center * center;
  return {static_cast<float>(center),
          static_cast<float>(step / std::sqrt(step * step * variance + double{norm.eps}))};
}

template <typename X, typename Y>
[[gnu::always_inline]] inline void normalize(const X* __restrict x, Y* __restrict y,
                                             const LayerNorm& norm, RowMoments m,
                                             const ByteOutput& output) {
  const float* __restrict weight = norm.weight.data(), * __restrict bias = norm.bias.data();
  const ByteOutput out = output;
  for (int64_t i = 0, width = norm.width; i < width; ++i)
    store_real((static_cast<float>(x[i]) - m.center) * m.inverse * weight[i] + bias[i], y + i, out);
}

// Of a group: its weights are for runs of elements.
template <typename X, typename Y>
[[gnu::always_inline]] inline void normalize_runs(const X* x, Y* y, const LayerNorm& norm,
                                                  int64_t group, RowMoments m,
                                                  const ByteOutput& output) {
  const int64_t runs = norm.width / norm.run, run = norm.run;
  const float *weight = norm.weight.data() + group * runs, *bias = norm.bias.data() + group * runs;
  const ByteOutput out = output;
  for (int64_t c = 0; c < runs; ++c) {
    const float factor = m.inverse * weight[c], shift = bias[c];
    const X* __restrict from = x + c * run;
    Y* __restrict to = y + c * run;
    for (int64_t i = 0; i < run; ++i)
      store_real((static_cast<float>(from[i]) - m.center) * factor + shift, to + i, out);
  }
}

template <typename X, typename Y>
void normalize_rows(const LayerNorm& norm, const std::byte* from, std::byte* to,
                    pthreadpool_t pool) {
  const float scale = norm.from ? norm.from->scale : 1;
  const ByteOutput output =
      norm.to ? byte_output(norm.to->scale, norm.to->zero_point) : ByteOutput{};
  for_parts(pool, norm.rows, rows_per_part(norm.width), [&](int64_t first, int64_t last) {
    const X* x = reinterpret_cast<const X*>(from) + first * norm.width;
    Y* y = reinterpret_cast<Y*>(to) + first * norm.width;
    for (int64_t row = first; row < last; ++row, x += norm.width, y += norm.width)
      run_vectorised([&]() __attribute__((always_inline)) {
        const RowMoments moments = moments_of(x, norm.width, norm, scale);
        if (norm.run == 1 && norm.groups == 1)
          normalize(x, y, norm, moments, output);
        else
          normalize_runs(x, y, norm, row % norm.groups, moments, output);
      });
  });
}

}  // namespace

void run(const LayerNorm& norm, const std::byte* from, std::byte* to, pthreadpool_t pool) {
  with_elements(norm.from.has_value(), norm.to.has_value(),
                [&]<typename X, typename Y>(X, Y) { normalize_rows<X, Y>(norm, from, to, pool); });
}

}  // namespace octet::xnnpack
