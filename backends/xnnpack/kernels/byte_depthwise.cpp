// Converts each row of x to floats once, in a ring of as many rows as a window spans, and
// multiplies 16 channels of four neighboring pixels at a time.
//
//   kernel 3, stride 1      ring: row 0  row 1  row 2      y row 1 reads rows 0, 1, 2
//                           ring: row 3  row 1  row 2      y row 2 reads rows 1, 2, 3
//
// Row 3 takes the memory of row 0, which no window reads any more. Floats hold the sums exactly: a
// product of bytes has at most 16 bits, and a window few enough taps that a sum stays below 2^24.
#include <algorithm>
#include <cstring>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "backends/xnnpack/kernels/byte_conv.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kPixels = 4;  // of y that share the loads of weights
using Lanes [[gnu::vector_size(kLanes * sizeof(float)), gnu::aligned(4), gnu::may_alias]] = float;

// Converts a row of pixels; leaves the pixels after it unchanged.
template <typename T>
[[gnu::always_inline]] inline void bytes_to_floats(const T* bytes, float* reals, int64_t pixels,
                                                   int64_t channels, int64_t from_pitch,
                                                   int64_t to_pitch, int32_t zero) {
  for (int64_t i = 0; i < pixels; ++i) {
    const T* __restrict x = bytes + i * from_pitch;
    float* __restrict to = reals + i * to_pitch;
    for (int64_t c = 0; c < channels; ++c) to[c] = static_cast<float>(x[c] - zero);
  }
}

// What the windows of neighboring pixels read: floats, at fixed steps from the first window.
struct Reach {
  const float* const* rows;  // by row of the window; null: outside the image
  int64_t height, width;     // of the window
  int64_t pixel_step, tap_step;
  const float* weights;  // [height, width, channels]
  int64_t channels;      // rounded up to whole lanes
};

template <int64_t kCount>
[[gnu::always_inline]] inline void add_windows(const Reach& r, int64_t first, int64_t channel,
                                               Lanes* sums) {
  Lanes sum[kCount] = {};
  for (int64_t ky = 0; ky < r.height; ++ky) {
    if (r.rows[ky] == nullptr) continue;
    const float* x = r.rows[ky] + first * r.pixel_step + channel;
    const float* w = r.weights + ky * r.width * r.channels + channel;
    for (int64_t kx = 0; kx < r.width; ++kx, x += r.tap_step, w += r.channels) {
      const Lanes weight = *reinterpret_cast<const Lanes*>(w);
#pragma GCC unroll 8
      for (int64_t i = 0; i < kCount; ++i)
        sum[i] += *reinterpret_cast<const Lanes*>(x + i * r.pixel_step) * weight;
    }
  }
#pragma GCC unroll 8
  for (int64_t i = 0; i < kCount; ++i) sums[i] = sum[i];
}

struct DepthwiseConv : ByteConvMethod {
  ByteConvTerms terms;
  std::vector<float> weights;      // [taps, channels]
  std::vector<float> scale, bias;  // as `weights`: padded to whole lanes
  int64_t channels;                // rounded up to whole lanes
  int64_t row_pixels;              // of a row of x with padding
  int64_t ring;                    // rows of x that a window spans
  int64_t parts;  // each has scratch memory: the ring, some pixels of y, rows of a window

  int64_t ring_floats() const { return ring * row_pixels * channels; }
  int64_t windows() const { return ring_floats() + kPixels * channels; }
  int64_t part_floats() const {
    constexpr int64_t kPointer = sizeof(const float*) / sizeof(float);
    return windows() + round_up(terms.window.kernel_height * kPointer, kLanes);
  }

  DepthwiseConv(const ByteConvTerms& given, pthreadpool_t pool);
  size_t scratch_bytes() const override;
  void run(PixelBytes x, std::byte* to, std::byte* scratch, pthreadpool_t pool) const override;
  void convert_row(const PixelBytes& x, int64_t image, int64_t iy, int32_t zero, float* to) const;
  void run_row(const Reach& reach, float factor, float* reals, std::byte* y) const;
  void run_rows(const PixelBytes& x, std::byte* y, int64_t first, int64_t last,
                float* scratch) const;
};

DepthwiseConv::DepthwiseConv(const ByteConvTerms& given, pthreadpool_t pool)
    : terms(given),
      scale(given.scales.scale),
      bias(given.scales.bias),
      channels(round_up(given.channels, kLanes)) {
  const Window& w = terms.window;
  const int64_t threads = static_cast<int64_t>(pthreadpool_get_threads_count(pool)),
                rows = terms.images * terms.out_height, taps = w.taps();
  scale.resize(static_cast<size_t>(channels));
  bias.resize(static_cast<size_t>(channels));
  weights.resize(static_cast<size_t>(taps * channels));
  const Tensor filter = terms.weights.contiguous();
  for (int64_t c = 0; c < terms.channels; ++c)
    for (int64_t t = 0; t < taps; ++t)
      weights[static_cast<size_t>(t * channels + c)] = filter.data<int8_t>()[c * taps + t];
  row_pixels =
      std::max((terms.out_width - 1) * w.stride_width + (w.kernel_width - 1) * w.dilation_width + 1,
               w.pad_left + terms.width);
  ring = (w.kernel_height - 1) * w.dilation_height + 1;
  parts = threads == 1 ? 1 : std::min(2 * threads, rows);
  terms.weights = {};
}

size_t DepthwiseConv::scratch_bytes() const {
  return static_cast<size_t>(parts * part_floats()) * sizeof(float);
}

void DepthwiseConv::convert_row(const PixelBytes& x, int64_t image, int64_t iy, int32_t zero,
                                float* to) const {
  const uint8_t* const bytes = x.bytes + (image * terms.height + iy) * terms.width * terms.pitch();
  float* const reals = to + terms.window.pad_left * channels;
  run_vectorized([=, pixels = terms.width, count = terms.channels, pitch = terms.pitch(),
                  to_pitch = channels, is_signed = x.is_signed]() __attribute__((always_inline)) {
    if (is_signed)
      bytes_to_floats(reinterpret_cast<const int8_t*>(bytes), reals, pixels, count, pitch, to_pitch,
                      zero);
    else
      bytes_to_floats(bytes, reals, pixels, count, pitch, to_pitch, zero);
  });
}

// y: of the row's first pixel.
void DepthwiseConv::run_row(const Reach& reach, float factor, float* reals, std::byte* y) const {
  const ByteOutput output = byte_output({1, terms.scales.y_zero.value_or(0)});
  run_vectorized([=, this, pixels = terms.out_width, out = terms.channels, low = terms.scales.low,
                  high = terms.scales.high, scales = scale.data(), biases = bias.data(),
                  lanes = channels,
                  is_byte = terms.scales.y_zero.has_value()]() __attribute__((always_inline)) {
    for (int64_t first = 0; first < pixels; first += kPixels) {
      const int64_t count = std::min(kPixels, pixels - first);
      for (int64_t c = 0; c < lanes; c += kLanes) {
        Lanes sums[kPixels];
        if (count == kPixels)
          add_windows<kPixels>(reach, first, c, sums);
        else
          for (int64_t i = 0; i < count; ++i) add_windows<1>(reach, first + i, c, sums + i);
        const Lanes s = *reinterpret_cast<const Lanes*>(scales + c) * factor,
                    b = *reinterpret_cast<const Lanes*>(biases + c);
        for (int64_t i = 0; i < count; ++i) {
          const Lanes v = sums[i] * s + b, least = v < low ? Lanes{} + low : v;
          *reinterpret_cast<Lanes*>(reals + i * lanes + c) = least > high ? Lanes{} + high : least;
        }
      }
      const int64_t runs = out == lanes ? 1 : count, run = out == lanes ? count * out : out;
      for (int64_t i = 0; i < runs; ++i) {
        const int64_t at = (first + i) * out;
        if (is_byte)
          round_to_bytes(reals + i * lanes, reinterpret_cast<int8_t*>(y) + at, run, output);
        else
          std::memcpy(reinterpret_cast<float*>(y) + at, reals + i * lanes,
                      static_cast<size_t>(run) * sizeof(float));
      }
    }
  });
}

// Computes rows of y, numbered over all images.
void DepthwiseConv::run_rows(const PixelBytes& x, std::byte* y, int64_t first, int64_t last,
                             float* scratch) const {
  const Window& w = terms.window;
  std::fill_n(scratch, ring_floats(), 0.0f);  // the padding
  const int64_t row_floats = row_pixels * channels,
                element = terms.scales.y_zero ? 1 : int64_t{sizeof(float)};
  const float** const rows = reinterpret_cast<const float**>(scratch + windows());
  const Reach reach = {rows,
                       w.kernel_height,
                       w.kernel_width,
                       w.stride_width * channels,
                       w.dilation_width * channels,
                       weights.data(),
                       channels};
  int64_t image = -1, converted = 0;  // rows converted so far of that image
  RowParameters given = {x.zero, 1.0f};
  for (int64_t row = first; row < last; ++row) {
    const int64_t top = row % terms.out_height * w.stride_height - w.pad_top;
    if (image != row / terms.out_height) {
      image = row / terms.out_height;
      converted = std::max<int64_t>(top, 0);
      if (x.parameters != nullptr) given = x.parameters[image * terms.height * terms.width];
    }
    converted = std::max(converted, top);
    for (; converted < std::min(top + ring, terms.height); ++converted)
      convert_row(x, image, converted, given.zero_point, scratch + converted % ring * row_floats);
    for (int64_t ky = 0; ky < w.kernel_height; ++ky) {
      const int64_t iy = top + ky * w.dilation_height;
      rows[ky] = iy >= 0 && iy < terms.height ? scratch + iy % ring * row_floats : nullptr;
    }
    run_row(reach, given.scale, scratch + ring_floats(),
            y + row * terms.out_width * terms.channels * element);
  }
}

void DepthwiseConv::run(PixelBytes x, std::byte* to, std::byte* scratch, pthreadpool_t pool) const {
  const int64_t rows = terms.images * terms.out_height;
  for_parts(pool, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part)
      run_rows(x, to, part * rows / parts, (part + 1) * rows / parts,
               reinterpret_cast<float*>(scratch) + part * part_floats());
  });
}

}  // namespace

std::shared_ptr<const ByteConvMethod> find_depthwise(const ByteConvTerms& terms,
                                                     pthreadpool_t pool) {
  const bool is_exact = terms.window.taps() * 255 * 128 < (int64_t{1} << 24);
  if (terms.groups != terms.channels || terms.groups != terms.out || terms.is_planar || !is_exact)
    return nullptr;
  return std::make_shared<const DepthwiseConv>(terms, pool);
}

}  // namespace octet::xnnpack
