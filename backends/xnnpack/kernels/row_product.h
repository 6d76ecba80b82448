// Linears on rows that are quantized at run time: float rows become bytes, which are multiplied by
// int8 weights with exact 32-bit sums and scaled by one scale and zero point per row and one scale
// per column. Uses XNNPACK's kernel if the opened release has one with the known type,
// else a custom kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/kernels/dynamic_rows.h"
#include "backends/xnnpack/functions.h"
#include "lowering/program/dynamic_range.h"
#include "lowering/program/program.h"

namespace octet::xnnpack {

// real = scale * (value - zero_point). XNNPACK requires this layout.
struct RowParameters {
  int32_t zero_point;
  float scale;
};

// The least and greatest float of a block or part of a block.
struct RowRange {
  float low;
  float high;
};

// The layout of rows of bytes: parameters, values, ranges (used only while quantizing).
struct RowLayout {
  int64_t rows;
  int64_t width;
  // bytes between rows; values from `width` on are unspecified
  int64_t stride() const { return (width + 3) / 4 * 4; }
  size_t values() const { return (static_cast<size_t>(rows) + kExtraRows) * sizeof(RowParameters); }
  size_t ranges() const { return values() + static_cast<size_t>(rows * stride()) + kExtraBytes; }
  size_t bytes() const { return ranges() + static_cast<size_t>(rows) * sizeof(RowRange); }
  // copies of the last row's parameters: XNNPACK computes that row up to ten times, and the last
  // result counts
  static constexpr size_t kExtraRows = 16;
  static constexpr size_t kExtraBytes = 128;  // XNNPACK reads past the values
};

// Quantizes float rows to a RowLayout.
struct RowQuantization {
  DynamicMapping mapping;
  RowBlocks blocks;

  // from: f32, row-major; to: aligned like floats. Allocates nothing. pool: null for one thread.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;
};

// Quantizes float rows and dequantizes the result, for ops other than products.
struct RowFakeQuantization {
  RowQuantization quantization;

  size_t scratch_bytes() const;
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;
};

// The least byte that the product reads: 0 for u8, -128 for s8.
int lowest_byte();

// The constants of a linear before packing.
struct RowProductTerms {
  IntegerWeights weights;
  std::vector<float> bias;  // [out]
  float low;                // clamp of the output
  float high;
};

// A linear with packed weights; copies share them.
class RowProduct {
 public:
  // rows: of each run. Throws Refusal.
  RowProduct(const RowProductTerms& terms, int64_t rows, pthreadpool_t pool);
  // w: has_weight_groups; terms: without weights. Packed weights are shared.
  RowProduct(const RowProductTerms& terms, const ProgramTensor& w, int64_t rows);
  // from: a RowLayout; to: f32 [rows, out], row-major. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
           pthreadpool_t pool) const {
    packed_->run(from[0], to, pool);
  }

  class Packed {
   public:
    virtual ~Packed() = default;
    virtual void run(const std::byte* from, std::byte* to, pthreadpool_t pool) const = 0;
  };

 private:
  std::shared_ptr<const Packed> packed_;
};

// Whether the weight [out, in] of a linear is stored as int8 with scales per group of inputs (at
// least 16, a multiple of 4) and zero points 0, and this CPU has kernels for it (Arm).
bool has_weight_groups(const ProgramTensor& w);

}  // namespace octet::xnnpack
