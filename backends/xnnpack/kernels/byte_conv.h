// Convolutions on bytes, channels last: exact 32-bit sums, scaled in float to floats or signed
// bytes. Three-dimensional convolutions are also supported in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backends/xnnpack/functions.h"
#include "backends/xnnpack/kernels/byte_linear.h"
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
  bool is_planar = false;  // x and y are row-major, channels first
  Tensor weights;  // int8 [out, channels / groups, spatial...], zero points 0; in any memory order
  ByteScales scales;              // of [out]
  std::optional<int32_t> x_zero;  // nullopt: x is a RowLayout with a row per pixel

  int64_t taps() const { return depth_window.kernel * window.taps(); }
  // per image, and in total
  int64_t x_pixels() const { return depth * height * width; }
  int64_t y_pixels() const { return out_depth * out_height * out_width; }
  int64_t pixels() const { return images * y_pixels(); }
  // bytes from one pixel of x to the next
  int64_t pitch() const { return x_zero ? channels : (channels + 3) / 4 * 4; }
};

// ---- the two methods: by the loops of row_kernels.h (byte_conv.cpp), or channel by channel
// (byte_depthwise.cpp)

// The bytes of x.
struct PixelBytes {
  const uint8_t* bytes;
  bool is_signed;
  const RowParameters* parameters;  // per pixel; null: zero point 0 and scale 1
  int32_t zero;                     // added to these zero points
};

class ByteConvMethod {
 public:
  virtual ~ByteConvMethod() = default;
  virtual size_t scratch_bytes() const = 0;
  virtual void run(PixelBytes x, std::byte* to, std::byte* scratch, pthreadpool_t pool) const = 0;
};

// For one channel and one output per group, if sums in float are exact; else null.
std::shared_ptr<const ByteConvMethod> find_depthwise(const ByteConvTerms& terms,
                                                     pthreadpool_t pool);

// ---- the convolution

// Holds packed weights; copies share them.
class ByteConv {
 public:
  // pool: of all runs, null for one thread.
  ByteConv(const ByteConvTerms& terms, pthreadpool_t pool);
  size_t scratch_bytes() const;
  // scratch: aligned to 64. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;

 private:
  RowLayout pixels_;  // of x
  std::optional<int32_t> x_zero_;
  std::shared_ptr<const ByteConvMethod> method_;
};

}  // namespace octet::xnnpack
