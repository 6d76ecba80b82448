// How a convolution on bytes is done: by the loops of row_kernels.h (byte_conv.cpp), or channel by
// channel (byte_depthwise.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/xnnpack/kernels/byte_conv.h"
#include "backends/xnnpack/kernels/row_product.h"

namespace octet::xnnpack {

// The bytes of x.
struct PixelBytes {
  const uint8_t* bytes;
  bool is_signed;
  const RowParameters* parameters;  // of each pixel; null: zero point 0 and scale 1
  int32_t zero;                     // is added to their zero points
};

class ByteConvMethod {
 public:
  virtual ~ByteConvMethod() = default;
  virtual size_t scratch_bytes() const = 0;
  virtual void run(PixelBytes x, std::byte* to, std::byte* scratch, pthreadpool_t pool) const = 0;
};

// Of as many groups as channels and as outputs, where sums in float are exact; else null.
std::shared_ptr<const ByteConvMethod> find_depthwise(const ByteConvTerms& terms,
                                                     pthreadpool_t pool);

}  // namespace octet::xnnpack
