// Linears on signed bytes with constant weights: exact 32-bit sums, scaled in float to floats or
// signed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/xnnpack/functions.h"
#include "core/base/tensor.h"

namespace octet::xnnpack {

// Converts sums of products of bytes with constant weights: y = clamp(sum * scale + bias), in steps
// of y when y has bytes.
struct ByteScales {
  std::vector<float> scale;       // per output: the weight's scale times the known part of x's
  std::vector<float> bias;        // per output
  float low = 0, high = 0;        // clamp
  std::optional<int32_t> y_zero;  // for bytes; nullopt: floats
};

struct ByteLinearTerms {
  int64_t rows = 0;
  int32_t x_zero = 0;
  Tensor weights;     // int8 [out, in], zero points 0
  ByteScales scales;  // of [out]
};

// Holds packed weights; copies share them.
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

// Whether this is faster than XNNPACK's kernels, which do not use the CPU's dot-product
// instructions.
bool prefers_byte_linear();

}  // namespace octet::xnnpack
