// Each row is read twice, the second time from the cache. Sums of bytes and of their squares are
// exact; sums of floats are accumulated in lanes.
#include "backends/kernels/norm.h"

#include <algorithm>
#include <cmath>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "core/base/error.h"

namespace octet {
namespace {

// y = (x - center) * inverse * weight + bias, in units of x.
struct RowMoments {
  float center;
  float inverse;
};

// Sums term(x) in lanes; the rest of a row in double.
template <typename Term>
[[gnu::always_inline]] inline double sum_of(const float* x, int64_t width, const Term& term) {
  const int64_t whole = width / kRowLanes * kRowLanes;
  float sums[kRowLanes] = {};
  for (int64_t i = 0; i < whole; i += kRowLanes)
    for (int64_t k = 0; k < kRowLanes; ++k) sums[k] += term(x[i + k]);
  double sum = double{sum_of_lanes(sums)};
  for (int64_t i = whole; i < width; ++i) sum += term(double{x[i]});
  return sum;
}

struct Itself {
  template <typename T>
  [[gnu::always_inline]] T operator()(T x) const {
    return x;
  }
};
struct Squared {
  template <typename T>
  [[gnu::always_inline]] T operator()(T x) const {
    return x * x;
  }
};
struct DistanceSquared {
  float center;
  template <typename T>
  [[gnu::always_inline]] T operator()(T x) const {
    return (x - T{center}) * (x - T{center});
  }
};

[[gnu::always_inline]] inline RowMoments moments_of(const float* x, const RowNorm& norm) {
  const double count = static_cast<double>(norm.width);
  float center = 0;
  double square = 0;
  if (norm.is_centered) {
    center = static_cast<float>(sum_of(x, norm.width, Itself{}) / count);
    square = sum_of(x, norm.width, DistanceSquared{center});
  } else {
    square = sum_of(x, norm.width, Squared{});
  }
  return {center, static_cast<float>(1 / std::sqrt(square / count + norm.eps))};
}

[[gnu::always_inline]] inline RowMoments moments_of(const int8_t* x, const RowNorm& norm) {
  constexpr int64_t kMostSummands = 65536;  // of squares, in 32 bits
  const uint8_t flip = norm.from->flip;
  double sum = 0, square = 0;
  for (int64_t first = 0; first < norm.width; first += kMostSummands) {
    const int64_t last = std::min(first + kMostSummands, norm.width);
    int32_t part = 0, squares = 0;
    for (int64_t i = first; i < last; ++i) {
      const int32_t value = number_of(x[i], flip);
      part += value;
      squares += value * value;
    }
    sum += part;
    square += squares;
  }
  const double count = static_cast<double>(norm.width), step = double{norm.from->scale},
               center = norm.is_centered ? sum / count : static_cast<double>(norm.from->zero_point),
               variance = (square - 2 * sum * center) / count + center * center;
  return {static_cast<float>(center),
          static_cast<float>(step / std::sqrt(step * step * variance + norm.eps))};
}

// Takes parameters by value: stores to bytes might change what references refer to.
template <typename X, typename Y>
[[gnu::always_inline]] inline void normalize(const X* __restrict x, Y* __restrict y, int64_t width,
                                             const float* __restrict weight,
                                             const float* __restrict bias, RowMoments m,
                                             uint8_t flip, ByteOutput output) {
  if (bias != nullptr) {
    for (int64_t i = 0; i < width; ++i)
      store_real(
          (static_cast<float>(number_of(x[i], flip)) - m.center) * m.inverse * weight[i] + bias[i],
          y + i, output);
  } else if (m.center != 0) {
    for (int64_t i = 0; i < width; ++i)
      store_real((static_cast<float>(number_of(x[i], flip)) - m.center) * m.inverse * weight[i],
                 y + i, output);
  } else {
    for (int64_t i = 0; i < width; ++i)
      store_real(static_cast<float>(number_of(x[i], flip)) * m.inverse * weight[i], y + i, output);
  }
}

// Normalizes a row of a group norm, whose weights each apply to a run of elements.
template <typename X, typename Y>
[[gnu::always_inline]] inline void normalize_runs(const X* x, Y* y, const RowNorm& norm,
                                                  int64_t group, RowMoments m, uint8_t flip,
                                                  ByteOutput output) {
  const int64_t runs = norm.width / norm.run_length, run = norm.run_length;
  const float *weight = norm.weight.data() + group * runs, *bias = norm.bias.data() + group * runs;
  for (int64_t c = 0; c < runs; ++c) {
    const float factor = m.inverse * weight[c], shift = bias[c];
    const X* __restrict from = x + c * run;
    Y* __restrict to = y + c * run;
    for (int64_t i = 0; i < run; ++i)
      store_real((static_cast<float>(number_of(from[i], flip)) - m.center) * factor + shift, to + i,
                 output);
  }
}

template <typename X, typename Y>
void normalize_rows(const RowNorm& norm, const std::byte* from, std::byte* to,
                    const Parallel& parallel) {
  const ByteOutput output = norm.to ? byte_output(*norm.to) : ByteOutput{};
  const uint8_t flip = norm.from ? norm.from->flip : 0;
  const bool has_runs = norm.run_length > 1 || norm.groups > 1;
  OCTET_ASSERT(!has_runs || !norm.bias.empty(), "a group norm without biases");
  const float* const bias = norm.bias.empty() ? nullptr : norm.bias.data();
  parallel(norm.rows, norm.width, [&](int64_t first, int64_t last) {
    run_vectorized([=, &norm, width = norm.width]() __attribute__((always_inline)) {
      for (int64_t row = first; row < last; ++row) {
        const X* x = reinterpret_cast<const X*>(from) + row * width;
        Y* y = reinterpret_cast<Y*>(to) + row * width;
        const RowMoments moments = moments_of(x, norm);
        if (has_runs)
          normalize_runs(x, y, norm, row % norm.groups, moments, flip, output);
        else
          normalize(x, y, width, norm.weight.data(), bias, moments, flip, output);
      }
    });
  });
}

// Normalizes groups [first, last) of one batch entry, with `size` channels each. factor, shift: one
// per channel; they first hold sums and centers.
[[gnu::always_inline]] inline void normalize_pixels(const PixelGroupNorm& g, const float* x,
                                                    float* __restrict y, int64_t first,
                                                    int64_t last, float* __restrict factor,
                                                    float* __restrict shift) {
  const int64_t channels = g.channels, pixels = g.pixels, size = channels / g.groups,
                begin = first * size, end = last * size;
  const double count = static_cast<double>(size * pixels);
  float* const center = shift;
  std::fill(factor + begin, factor + end, 0.0f);
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = begin; c < end; ++c) factor[c] += x[i * channels + c];
  for (int64_t at = begin; at < end; at += size)
    std::fill_n(center + at, size, static_cast<float>(sum_of(factor + at, size, Itself{}) / count));
  std::fill(factor + begin, factor + end, 0.0f);
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = begin; c < end; ++c)
      factor[c] += (x[i * channels + c] - center[c]) * (x[i * channels + c] - center[c]);
  for (int64_t at = begin; at < end; at += size) {
    const float variance = static_cast<float>(sum_of(factor + at, size, Itself{}) / count),
                inverse = 1.0f / std::sqrt(variance + static_cast<float>(g.eps));
    for (int64_t c = at; c < at + size; ++c) {
      factor[c] = inverse * g.weight[static_cast<size_t>(c)];
      shift[c] = g.bias[static_cast<size_t>(c)] - center[c] * factor[c];
    }
  }
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = begin; c < end; ++c)
      y[i * channels + c] = x[i * channels + c] * factor[c] + shift[c];
}

// kStep: elements between consecutive factors and shifts, 0 or 1.
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
void run_affine(const ChannelAffine& p, const std::byte* from, std::byte* to,
                const Parallel& parallel) {
  const ByteOutput output = p.to ? byte_output(*p.to) : ByteOutput{};
  const bool is_last = p.inner == 1;
  const int64_t width = is_last ? p.channels : p.inner,
                rows = is_last ? p.outer : p.outer * p.channels;
  parallel(rows, width, [&](int64_t first, int64_t last) {
    run_vectorized([=, channels = p.channels, factor = p.factor.data(), shift = p.shift.data()]()
                       __attribute__((always_inline)) {
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

void RowNorm::run(std::span<const std::byte* const> inputs, std::byte* output, std::byte*,
                  const Parallel& parallel) const {
  with_elements(from.has_value(), to.has_value(), [&]<typename X, typename Y>(X, Y) {
    normalize_rows<X, Y>(*this, inputs[0], output, parallel);
  });
}

size_t PixelGroupNorm::scratch_bytes() const {
  return static_cast<size_t>(2 * batch * channels) * sizeof(float);
}

void PixelGroupNorm::run(std::span<const std::byte* const> inputs, std::byte* output,
                         std::byte* scratch, const Parallel& parallel) const {
  const int64_t entry = channels * pixels;
  parallel(batch * groups, entry / groups, [&](int64_t first, int64_t last) {
    run_vectorized([=, this]() __attribute__((always_inline)) {
      for (int64_t i = first; i < last;) {
        const int64_t n = i / groups, group = i % groups, next = std::min(last, (n + 1) * groups);
        float* const factor = reinterpret_cast<float*>(scratch) + 2 * n * channels;
        normalize_pixels(*this, reinterpret_cast<const float*>(inputs[0]) + n * entry,
                         reinterpret_cast<float*>(output) + n * entry, group, group + next - i,
                         factor, factor + channels);
        i = next;
      }
    });
  });
}

void ChannelAffine::run(std::span<const std::byte* const> inputs, std::byte* output, std::byte*,
                        const Parallel& parallel) const {
  with_elements(is_byte, to.has_value(), [&]<typename X, typename Y>(X, Y) {
    run_affine<X, Y>(*this, inputs[0], output, parallel);
  });
}

}  // namespace octet
