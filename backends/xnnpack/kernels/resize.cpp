// See the header. A row of the output: the rows of the input that it reads are added up, then the
// pixels of that sum.
#include "backends/xnnpack/kernels/resize.h"

#include <algorithm>
#include <type_traits>

#include "backends/common/byte_rounding.h"
#include "backends/common/vectorised.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kMostParts = 32;  // each with a row of its own in the scratch memory

int64_t output_rows(const ImageResize& r) { return r.outer * r.axes[0].out() * r.axes[1].out(); }
int64_t part_size(const ImageResize& r) {
  return std::max<int64_t>((output_rows(r) + kMostParts - 1) / kMostParts, 1);
}
// The summed input row, and the output row before it is rounded.
int64_t part_floats(const ImageResize& r) { return (r.axes[2].in + r.axes[2].out()) * r.inner; }

template <typename X>
[[gnu::always_inline]] inline void add_weighted(const X* x, float* sum, int64_t count,
                                                float weight) {
  const X* __restrict from = x;
  float* __restrict to = sum;
  for (int64_t i = 0; i < count; ++i) to[i] += weight * static_cast<float>(from[i]);
}

[[gnu::always_inline]] inline void add_rows(const ImageResize& r, const auto* x, int64_t row,
                                            float* sum) {
  const auto& [z, y, width] = r.axes;
  const int64_t size = width.in * r.inner, oy = row % y.out(), oz = row / y.out() % z.out(),
                outer = row / y.out() / z.out();
  std::fill_n(sum, size, 0.0f);
  for (int64_t i = z.first[static_cast<size_t>(oz)]; i < z.first[static_cast<size_t>(oz) + 1]; ++i)
    for (int64_t k = y.first[static_cast<size_t>(oy)]; k < y.first[static_cast<size_t>(oy) + 1];
         ++k) {
      const ResizeAxis::Tap &a = z.taps[static_cast<size_t>(i)],
                            &b = y.taps[static_cast<size_t>(k)];
      add_weighted(x + ((outer * z.in + a.at) * y.in + b.at) * size, sum, size,
                   a.weight * b.weight);
    }
}

[[gnu::always_inline]] inline void add_pixels(const ImageResize& r, const float* sum, float* to) {
  const ResizeAxis& width = r.axes[2];
  const int64_t inner = r.inner;
  const ResizeAxis::Tap* taps = width.taps.data();
  const int64_t* first = width.first.data();
  for (int64_t o = 0, out = width.out(); o < out; ++o) {
    if (inner == 1) {
      float value = 0;
      for (int64_t i = first[o]; i < first[o + 1]; ++i) value += taps[i].weight * sum[taps[i].at];
      to[o] = value;
      continue;
    }
    std::fill_n(to + o * inner, inner, 0.0f);
    for (int64_t i = first[o]; i < first[o + 1]; ++i)
      add_weighted(sum + taps[i].at * inner, to + o * inner, inner, taps[i].weight);
  }
}

template <typename X, typename Y>
void resize_rows(const ImageResize& r, const X* x, Y* y, float* scratch, pthreadpool_t pool) {
  const int64_t size = part_size(r), out_size = r.axes[2].out() * r.inner;
  const float zero = r.from ? static_cast<float>(r.from->zero_point) : 0,
              scale = r.from ? r.from->scale : 1;
  const ByteOutput output = r.to ? byte_output(r.to->scale, r.to->zero_point) : ByteOutput{};
  // of one part each: a thread may get several at once
  for_parts(pool, (output_rows(r) + size - 1) / size, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      float* const sum = scratch + part * part_floats(r);
      float* const pixels = sum + r.axes[2].in * r.inner;
      run_vectorised([&]() __attribute__((always_inline)) {
        for (int64_t row = part * size; row < std::min((part + 1) * size, output_rows(r)); ++row) {
          add_rows(r, x, row, sum);
          if constexpr (std::is_same_v<X, float> && std::is_same_v<Y, float>) {
            add_pixels(r, sum, y + row * out_size);
          } else {
            float* const reals =
                std::is_same_v<Y, float> ? reinterpret_cast<float*>(y + row * out_size) : pixels;
            add_pixels(r, sum, reals);
            for (int64_t i = 0; i < out_size; ++i) reals[i] = (reals[i] - zero) * scale;
            if constexpr (!std::is_same_v<Y, float>)
              round_to_bytes(reals, y + row * out_size, out_size, output);
          }
        }
      });
    }
  });
}

}  // namespace

size_t ImageResize::scratch_bytes() const {
  return static_cast<size_t>(std::min(kMostParts, output_rows(*this)) * part_floats(*this)) *
         sizeof(float);
}

void run(const ImageResize& r, std::span<const std::byte* const> from, std::byte* to,
         std::byte* scratch, pthreadpool_t pool) {
  const int8_t* bytes = reinterpret_cast<const int8_t*>(from[0]);
  const float* floats = reinterpret_cast<const float*>(from[0]);
  float* memory = reinterpret_cast<float*>(scratch);
  if (r.to) {
    int8_t* y = reinterpret_cast<int8_t*>(to);
    return r.from ? resize_rows(r, bytes, y, memory, pool)
                  : resize_rows(r, floats, y, memory, pool);
  }
  float* y = reinterpret_cast<float*>(to);
  r.from ? resize_rows(r, bytes, y, memory, pool) : resize_rows(r, floats, y, memory, pool);
}

}  // namespace octet::xnnpack
