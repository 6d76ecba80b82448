// Convolutions on bytes, channels last: exact in 32 bits, then scaled in float, to floats or signed
// bytes. One for windows over several channels, one for channels that stay apart. The first takes
// three dimensions too, in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/xnnpack/functions.h"
#include "backends/xnnpack/kernels/row_product.h"
#include "backends/xnnpack/window.h"
#include "core/base/tensor.h"

namespace octet::xnnpack {

// The window's third dimension.
struct DepthWindow {
  int64_t kernel = 1, stride = 1, dilation = 1, pad_front = 0;
};

struct ByteConvTerms {
  int64_t images = 0, channels = 0, depth = 1, height = 0, width = 0;  // of x
  int64_t out_depth = 1, out_height = 0, out_width = 0;
  int64_t out = 0;  // channels of y
  int64_t groups = 1;
  Window window;
  DepthWindow depth_window;
  bool is_planar = false;    // x and y are row-major, with the channels in front
  Tensor weights;  // int8 [out, channels / groups, spatial...], zero points 0; in any memory order
  std::vector<float> scale;  // [out], the weight's times what is known of x's; where y has bytes,
                             // in its steps
  std::vector<float> bias;   // [out], likewise
  float low = 0, high = 0;   // clamp, likewise
  std::optional<int32_t> x_zero;  // nothing: x is a RowLayout with a row for each pixel
  std::optional<int32_t> y_zero;  // of bytes; nothing: floats

  int64_t taps() const { return depth_window.kernel * window.taps(); }
  // of an image, and of all
  int64_t x_pixels() const { return depth * height * width; }
  int64_t y_pixels() const { return out_depth * out_height * out_width; }
  int64_t pixels() const { return images * y_pixels(); }
  // bytes from one pixel of x to the next
  int64_t pitch() const { return x_zero ? channels : (channels + 3) / 4 * 4; }
};

// With its packed weights; copies share them. The scratch of both is aligned to 64; runs allocate
// nothing. pool: of all runs, null for one thread.
class ByteConv {
 public:
  ByteConv(const ByteConvTerms& terms, pthreadpool_t pool);
  size_t scratch_bytes() const;
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;

 private:
  struct Packed;
  std::shared_ptr<const Packed> packed_;
};

// As many groups as channels and as outputs. Sums of floats, which are exact: is_exact().
class ByteDepthwise {
 public:
  ByteDepthwise(const ByteConvTerms& terms, pthreadpool_t pool);
  static bool is_exact(int64_t taps) { return taps * 255 * 128 < (int64_t{1} << 24); }
  size_t scratch_bytes() const;
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;

 private:
  struct Packed;
  std::shared_ptr<const Packed> packed_;
};

// The bytes of x as both read them.
struct PixelBytes {
  const uint8_t* bytes;
  bool is_signed;
  const RowParameters* parameters;  // of each pixel; null: zero point 0 and scale 1
  int32_t zero;                     // is added to their zero points
};
PixelBytes pixel_bytes(const ByteConvTerms& terms, const std::byte* from);

}  // namespace octet::xnnpack
