// See the header.
#include "backends/xnnpack/kernels/float_softmax.h"

#include <algorithm>
#include <limits>

#include "backends/common/float_functions.h"
#include "backends/common/lanes.h"
#include "backends/common/vectorised.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kLanes = 32;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// Elements that lie together.
[[gnu::always_inline]] inline void softmax_of_row(const float* x, float* __restrict y, int64_t size,
                                                  bool is_masked) {
  const int64_t whole = size / kLanes * kLanes;
  float greatest[kLanes], sums[kLanes] = {};
  std::fill_n(greatest, kLanes, kLowest);
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k)
      greatest[k] = greatest[k] < x[i + k] ? x[i + k] : greatest[k];
  float most = greatest_of_lanes(greatest);
  for (int64_t i = whole; i < size; ++i) most = most < x[i] ? x[i] : most;
  const bool is_hidden = is_masked && most == kLowest;  // e^(x - 0) is 0 then
  most = is_hidden ? 0 : most;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) {
      const float e = exponential(x[i + k] - most);
      y[i + k] = e;
      sums[k] += e;
    }
  float sum = sum_of_lanes(sums);
  for (int64_t i = whole; i < size; ++i) sum += y[i] = exponential(x[i] - most);
  const float factor = is_hidden ? 0 : 1 / sum;
  for (int64_t i = 0; i < size; ++i) y[i] *= factor;
}

// `columns` neighbouring rows, at most kLanes, whose elements lie `step` apart.
[[gnu::always_inline]] inline void softmax_of_columns(const float* x, float* __restrict y,
                                                      int64_t size, int64_t step, int64_t columns,
                                                      bool is_masked) {
  float greatest[kLanes], sums[kLanes] = {};
  std::fill_n(greatest, kLanes, kLowest);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t c = 0; c < columns; ++c)
      greatest[c] = greatest[c] < x[i * step + c] ? x[i * step + c] : greatest[c];
  bool is_hidden[kLanes];
  for (int64_t c = 0; c < kLanes; ++c) {
    is_hidden[c] = is_masked && greatest[c] == kLowest;
    greatest[c] = is_hidden[c] ? 0 : greatest[c];
  }
  for (int64_t i = 0; i < size; ++i)
    for (int64_t c = 0; c < columns; ++c) {
      const float e = exponential(x[i * step + c] - greatest[c]);
      y[i * step + c] = e;
      sums[c] += e;
    }
  for (int64_t c = 0; c < kLanes; ++c) sums[c] = is_hidden[c] ? 0 : 1 / sums[c];
  for (int64_t i = 0; i < size; ++i)
    for (int64_t c = 0; c < columns; ++c) y[i * step + c] *= sums[c];
}

}  // namespace

void run(const FloatSoftmax& s, const std::byte* from, std::byte* to, pthreadpool_t pool) {
  const float* x = reinterpret_cast<const float*>(from);
  float* y = reinterpret_cast<float*>(to);
  if (s.inner == 1) {
    return for_parts(pool, s.outer, rows_per_part(s.size), [&](int64_t first, int64_t last) {
      run_vectorised([=, &s, size = s.size]() __attribute__((always_inline)) {
        for (int64_t row = first; row < last; ++row)
          softmax_of_row(x + row * size, y + row * size, size, s.is_masked);
      });
    });
  }
  const int64_t blocks = (s.inner + kLanes - 1) / kLanes, plane = s.size * s.inner;
  for_parts(
      pool, s.outer * blocks, rows_per_part(s.size * kLanes), [&](int64_t first, int64_t last) {
        run_vectorised([=, &s, size = s.size, inner = s.inner]() __attribute__((always_inline)) {
          for (int64_t part = first; part < last; ++part) {
            const int64_t column = part % blocks * kLanes, offset = part / blocks * plane + column;
            softmax_of_columns(x + offset, y + offset, size, inner,
                               inner - column < kLanes ? inner - column : kLanes, s.is_masked);
          }
        });
      });
}

}  // namespace octet::xnnpack
