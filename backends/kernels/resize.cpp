// For each output row, sums the input rows that it reads, then the pixels of that sum.
#include "backends/kernels/resize.h"

#include <algorithm>
#include <type_traits>

#include "backends/kernels/isa.h"

namespace octet {
namespace {

constexpr int64_t kMostParts = 32;  // each needs a row in the scratch memory

int64_t output_rows(const ImageResize& r) { return r.outer * r.axes[0].out() * r.axes[1].out(); }
int64_t part_size(const ImageResize& r) {
  return std::max<int64_t>((output_rows(r) + kMostParts - 1) / kMostParts, 1);
}
// Scratch floats of a part: the summed input row, and the output row before rounding.
int64_t part_floats(const ImageResize& r) { return (r.axes[2].in + r.axes[2].out()) * r.inner; }

// to = a * of_a, to = a * of_a + b * of_b, or to += a * of_a.
template <typename X>
[[gnu::always_inline]] inline void set_weighted(const X* a, float of_a, float* sum, int64_t count,
                                                uint8_t flip) {
  float* __restrict to = sum;
  for (int64_t i = 0; i < count; ++i) to[i] = of_a * static_cast<float>(number_of(a[i], flip));
}
template <typename X>
[[gnu::always_inline]] inline void set_weighted(const X* a, float of_a, const X* b, float of_b,
                                                float* sum, int64_t count, uint8_t flip) {
  float* __restrict to = sum;
  for (int64_t i = 0; i < count; ++i)
    to[i] = of_a * static_cast<float>(number_of(a[i], flip)) +
            of_b * static_cast<float>(number_of(b[i], flip));
}
template <typename X>
[[gnu::always_inline]] inline void add_weighted(const X* a, float of_a, float* sum, int64_t count,
                                                uint8_t flip) {
  float* __restrict to = sum;
  for (int64_t i = 0; i < count; ++i) to[i] += of_a * static_cast<float>(number_of(a[i], flip));
}

template <typename X>
[[gnu::always_inline]] inline void add_rows(const ImageResize& r, const X* x, int64_t row,
                                            float* sum) {
  const ResizeAxis &z = r.axes[0], &y = r.axes[1];
  const uint8_t flip = r.from ? r.from->flip : 0;
  const int64_t size = r.axes[2].in * r.inner, oy = row % y.out(), oz = row / y.out() % z.out(),
                outer = row / y.out() / z.out();
  const X* first = nullptr;  // waits to be added together with the second
  float of_first = 0;
  int64_t seen = 0;
  for (int64_t i = z.first[static_cast<size_t>(oz)]; i < z.first[static_cast<size_t>(oz) + 1]; ++i)
    for (int64_t k = y.first[static_cast<size_t>(oy)]; k < y.first[static_cast<size_t>(oy) + 1];
         ++k, ++seen) {
      const ResizeAxis::Tap &a = z.taps[static_cast<size_t>(i)],
                            &b = y.taps[static_cast<size_t>(k)];
      const X* const from = x + ((outer * z.in + a.at) * y.in + b.at) * size;
      const float weight = a.weight * b.weight;
      if (seen == 0) {
        first = from;
        of_first = weight;
      } else if (seen == 1) {
        set_weighted(first, of_first, from, weight, sum, size, flip);
      } else {
        add_weighted(from, weight, sum, size, flip);
      }
    }
  if (seen == 0) std::fill_n(sum, size, 0.0f);
  if (seen == 1) set_weighted(first, of_first, sum, size, flip);
}

// Converts a sum of an input row: (sum - zero) * scale.
struct Reals {
  float zero, scale;
  [[gnu::always_inline]] float of(float sum) const { return (sum - zero) * scale; }
};

// Number of taps of each position; 0 if positions differ.
int64_t taps_of_each(const ResizeAxis& axis) {
  const int64_t taps = std::ssize(axis.taps) / std::max<int64_t>(axis.out(), 1);
  for (size_t o = 0; o < axis.first.size(); ++o)
    if (axis.first[o] != static_cast<int64_t>(o) * taps) return 0;
  return taps;
}

// Writes an output row from a summed input row, for pixels of one element. each:
// taps_of_each(width).
[[gnu::always_inline]] inline void add_elements(const ResizeAxis& width, int64_t each,
                                                const float* sum, float* reals, Reals finish) {
  const int64_t out = width.out();
  const int64_t* const __restrict first = width.first.data();
  const ResizeAxis::Tap* const __restrict taps = width.taps.data();
  float* const __restrict to = reals;
  if (each == 1) {
    for (int64_t o = 0; o < out; ++o) to[o] = finish.of(taps[o].weight * sum[taps[o].at]);
  } else if (each == 2) {
    for (int64_t o = 0; o < out; ++o) {
      const ResizeAxis::Tap *a = taps + 2 * o, *b = a + 1;
      to[o] = finish.of(a->weight * sum[a->at] + b->weight * sum[b->at]);
    }
  } else {
    for (int64_t o = 0; o < out; ++o) {
      float value = 0;
      for (int64_t i = first[o]; i < first[o + 1]; ++i) value += taps[i].weight * sum[taps[i].at];
      to[o] = finish.of(value);
    }
  }
}

// Writes an output row from a summed input row, for pixels of several elements.
[[gnu::always_inline]] inline void add_pixels(const ResizeAxis& width, int64_t inner,
                                              const float* sum, float* reals, Reals finish) {
  const int64_t out = width.out();
  for (int64_t o = 0; o < out; ++o) {
    float* __restrict to = reals + o * inner;
    const int64_t first = width.first[static_cast<size_t>(o)],
                  count = width.first[static_cast<size_t>(o) + 1] - first;
    const ResizeAxis::Tap* const tap = width.taps.data() + first;
    if (count == 1) {
      const float* __restrict a = sum + tap[0].at * inner;
      const float of_a = tap[0].weight;
      for (int64_t c = 0; c < inner; ++c) to[c] = finish.of(of_a * a[c]);
    } else if (count == 2) {
      const float* __restrict a = sum + tap[0].at * inner, * __restrict b = sum + tap[1].at * inner;
      const float of_a = tap[0].weight, of_b = tap[1].weight;
      for (int64_t c = 0; c < inner; ++c) to[c] = finish.of(of_a * a[c] + of_b * b[c]);
    } else {
      std::fill_n(to, inner, 0.0f);
      for (int64_t i = 0; i < count; ++i)
        add_weighted(sum + tap[i].at * inner, tap[i].weight, to, inner, 0);
      for (int64_t c = 0; c < inner; ++c) to[c] = finish.of(to[c]);
    }
  }
}

template <typename X, typename Y>
void resize_rows(const ImageResize& r, const X* x, Y* y, float* scratch, const Parallel& parallel) {
  const int64_t size = part_size(r), out_size = r.axes[2].out() * r.inner;
  const int64_t each = taps_of_each(r.axes[2]);
  const Reals finish =
      r.from ? Reals{static_cast<float>(r.from->zero_point), r.from->scale} : Reals{0, 1};
  const ByteOutput output = r.to ? byte_output(*r.to) : ByteOutput{};
  parallel((output_rows(r) + size - 1) / size, size * out_size, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      float* const sum = scratch + part * part_floats(r);
      float* const pixels = sum + r.axes[2].in * r.inner;
      const int64_t end = std::min((part + 1) * size, output_rows(r));
      // by value: stores of floats might change what references refer to
      run_vectorized([=, &r]() __attribute__((always_inline)) {
        for (int64_t row = part * size; row < end; ++row) {
          Y* const to = y + row * out_size;
          float* made = pixels;
          if constexpr (std::is_same_v<Y, float>) made = to;
          add_rows(r, x, row, sum);
          if (r.inner == 1)
            add_elements(r.axes[2], each, sum, made, finish);
          else
            add_pixels(r.axes[2], r.inner, sum, made, finish);
          if constexpr (!std::is_same_v<Y, float>) round_to_bytes(pixels, to, out_size, output);
        }
      });
    }
  });
}

}  // namespace

ResizeAxis resize_axis(Resize resize, bool aligns, double scale, int64_t in, int64_t out) {
  ResizeAxis axis = {in, {}, {0}};
  std::vector<SampleTap> taps;
  for (int64_t o = 0; o < out; ++o) {
    add_taps(taps, resize, aligns, scale, o, in);
    axis.first.push_back(std::ssize(taps));
  }
  for (const SampleTap& tap : taps) axis.taps.push_back({tap.at, static_cast<float>(tap.weight)});
  return axis;
}

size_t ImageResize::scratch_bytes() const {
  return static_cast<size_t>(std::min(kMostParts, output_rows(*this)) * part_floats(*this)) *
         sizeof(float);
}

void ImageResize::run(std::span<const std::byte* const> inputs, std::byte* output,
                      std::byte* scratch, const Parallel& parallel) const {
  with_elements(from.has_value(), to.has_value(), [&]<typename X, typename Y>(X, Y) {
    resize_rows(*this, reinterpret_cast<const X*>(inputs[0]), reinterpret_cast<Y*>(output),
                reinterpret_cast<float*>(scratch), parallel);
  });
}

}  // namespace octet
