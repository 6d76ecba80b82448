// Products of two activations in signed bytes: exact 32-bit sums, to floats or signed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/xnnpack/kernels/float_product.h"

namespace octet::xnnpack {

// y = clamp(sum over k of (a - a_zero) * (b - b_zero) * scale)
struct ByteProduct {
  // The sums must fit 32 bits.
  ByteProduct(MatrixBatch batch, int32_t a_zero, int32_t b_zero, float scale, float low,
              float high);

  MatrixBatch batch;
  int32_t a_zero, b_zero;
  float scale;      // of y; in steps of y when y has bytes
  float low, high;  // as `scale`
  // for bytes; nullopt: floats
  std::optional<int32_t> y_zero;
  std::vector<float> ones, zeros;  // as many as the columns of whole blocks

  size_t scratch_bytes() const;
  // from: a and b, each matrix in row-major order. scratch: aligned to 64. Allocates nothing. pool:
  // null for one thread.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;
};

}  // namespace octet::xnnpack
