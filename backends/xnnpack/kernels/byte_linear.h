// Linears on signed bytes with constant weights: exact in 32 bits, then scaled in float, to floats
// or signed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/xnnpack/functions.h"
#include "backends/xnnpack/kernels/byte_scales.h"
#include "core/base/tensor.h"

namespace octet::xnnpack {

struct ByteLinearTerms {
  int64_t rows = 0;
  int32_t x_zero = 0;
  Tensor weights;     // int8 [out, in], zero points 0
  ByteScales scales;  // of [out]
};

// With its packed weights; copies share them.
class ByteLinear {
 public:
  explicit ByteLinear(const ByteLinearTerms& terms);
  size_t scratch_bytes() const;
  // from: s8 [rows, in]; to: [rows, out]; both row-major. scratch: aligned to 64. Allocates
  // nothing. pool: null for one thread.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;

 private:
  struct Packed;
  std::shared_ptr<const Packed> packed_;
};

// Whether this is faster than XNNPACK's own, which lack these instructions.
bool prefers_byte_linear();

}  // namespace octet::xnnpack
