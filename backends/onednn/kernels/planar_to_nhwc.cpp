// Planes are quantized block by block, then interleaved.
#include "backends/onednn/kernels/planar_to_nhwc.h"

#include <algorithm>
#include <cstring>

#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/kernels/quantize_row.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

// pixels whose bytes wait in the first-level cache to be interleaved
constexpr int64_t kBlock = 256;

using Bytes = uint8_t __attribute__((vector_size(16)));

[[gnu::always_inline]] inline Bytes load(const uint8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return bytes;
}

// y[3i + c] = planes[c][i], for a multiple of 16 pixels. Of each 16 bytes written: first those of
// planes 0 and 1 (from 16 on), then those of plane 2 put between; 0 stands where the second step
// writes. The orders are written out, as only constant ones are single instructions.
[[gnu::always_inline]] inline void interleave(const uint8_t (&planes)[3][kBlock], uint8_t* y,
                                              int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const Bytes a = load(planes[0] + i), b = load(planes[1] + i), c = load(planes[2] + i);
    const Bytes two[3] = {
        __builtin_shufflevector(a, b, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5),
        __builtin_shufflevector(a, b, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26),
        __builtin_shufflevector(a, b, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0)};
    const Bytes three[3] = {
        __builtin_shufflevector(two[0], c, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15),
        __builtin_shufflevector(two[1], c, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15),
        __builtin_shufflevector(two[2], c, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14,
                                31)};
    std::memcpy(y + 3 * i, three, sizeof(three));
  }
}

// `count` pixels of planes that are `plane` elements apart.
[[gnu::always_inline]] inline void quantize_pixels(const float* x, int64_t plane, uint8_t* y,
                                                   int64_t count, const QuantizeRow& p) {
  uint8_t planes[3][kBlock];
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t pixels = std::min(kBlock, count - first);
    for (int c = 0; c < 3; ++c) quantize_row(x + c * plane + first, planes[c], pixels, p);
    const int64_t whole = pixels / 16 * 16;
    interleave(planes, y + 3 * first, whole);
    for (int64_t i = whole; i < pixels; ++i)
      for (int c = 0; c < 3; ++c) y[3 * (first + i) + c] = planes[c][i];
  }
}

}  // namespace

Loop image_loop(const Stored& from, const Stored& to) {
  OCTET_ASSERT(from.shape.size() == 4 && from.shape[1] == 3 && !from.quant_params.is_integer() &&
                   to.quant_params.is_integer(),
               "three planes of floats");
  const int64_t batch = from.shape[0];
  const int64_t pixels = from.shape[2] * from.shape[3];
  const QuantizeRow p = quantize_row_of(to.quant_params);
  return [=](std::byte* const* arguments) {
    for (int64_t n = 0; n < batch; ++n) {
      const float* x = reinterpret_cast<const float*>(arguments[0]) + n * 3 * pixels;
      uint8_t* y = reinterpret_cast<uint8_t*>(arguments[1]) + n * 3 * pixels;
      for_chunks(pixels, [&](int64_t first, int64_t last) {
        run_vectorised([&]() __attribute__((always_inline)) {
          quantize_pixels(x + first, pixels, y + 3 * first, last - first, p);
        });
      });
    }
  };
}

}  // namespace octet::onednn
