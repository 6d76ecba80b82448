// Linears on rows that are quantized at run time: float rows to bytes, and the bytes times int8
// weights, exact in 32 bits, made real with one scale and zero point per row and one scale per
// column. The product is XNNPACK's where its release has one (row_operator.cpp), else a custom
// kernel (row_product.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/kernels/dynamic_rows.h"
#include "backends/xnnpack/functions.h"
#include "lowering/program/dynamic_range.h"

namespace octet::xnnpack {

// real = scale * (value - zero_point). As XNNPACK wants it.
struct RowParameters {
  int32_t zero_point;
  float scale;
};

// The least and greatest float of a block, or of a part of it.
struct RowRange {
  float low;
  float high;
};

// Where rows of bytes lie: parameters, values, ranges (which only the quantization reads).
struct RowLayout {
  int64_t rows;
  int64_t width;
  // bytes from row to row; those from `width` on have any value
  int64_t stride() const { return (width + 3) / 4 * 4; }
  size_t values() const { return (static_cast<size_t>(rows) + kExtraRows) * sizeof(RowParameters); }
  size_t ranges() const { return values() + static_cast<size_t>(rows * stride()) + kExtraBytes; }
  size_t bytes() const { return ranges() + static_cast<size_t>(rows) * sizeof(RowRange); }
  // parameters of the last row again: XNNPACK computes it up to ten times, and the last time counts
  static constexpr size_t kExtraRows = 16;
  static constexpr size_t kExtraBytes = 128;  // XNNPACK reads some past the values
};

// float rows -> RowLayout.
struct RowQuantization {
  DynamicMapping mapping;
  RowBlocks blocks;

  // from: f32, row-major; to: aligned like floats. Allocates nothing. pool: null for one thread.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;
};

// float rows -> the floats that these bytes stand for, for ops other than products.
struct RowFakeQuantization {
  RowQuantization quantization;

  size_t scratch_bytes() const;
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;
};

// What the product reads: u8 from 0 on, or s8 from this on.
int lowest_byte();

// A linear's constants, before they are packed.
struct RowProductTerms {
  IntegerWeights weights;
  std::vector<float> bias;  // [out]
  float low;                // clamp of the output
  float high;
};

// A linear with its packed weights. Copies share them.
class RowProduct {
 public:
  // rows: of each run. Throws Refusal.
  RowProduct(const RowProductTerms& terms, int64_t rows, pthreadpool_t pool);
  // from: a RowLayout; to: f32 [rows, out], row-major. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;

 private:
  struct Packed;
  std::shared_ptr<const Packed> packed_;
};

}  // namespace octet::xnnpack
