// Quantizes rows of floats to bytes at run time (the op fake_quantize_dynamic), for backends that
// multiply these bytes: the loops, the checks of what they support, and the weights to multiply
// with. A row with the range [-1, 3] gets scale 4 / 255 and, in u8, zero point round(255 / 4) = 64;
// 1.0 becomes round(255 / 4) + 64 = 128.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "core/base/report.h"
#include "lowering/program/dynamic_range.h"
#include "lowering/program/stored_constant.h"

namespace octet {

// ---- loops. They take parameters by value: a store to bytes might change what a reference refers
// to.

[[gnu::always_inline]] inline void find_range_loop(const float* x, int64_t count, float* lows,
                                                   float* highs) {
  constexpr int64_t kLanes = 32;
  float low[kLanes] = {};
  float high[kLanes] = {};
  for (int64_t i = 0; i + kLanes <= count; i += kLanes)
    for (int64_t k = 0; k < kLanes; ++k) {
      low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
      high[k] = high[k] < x[i + k] ? x[i + k] : high[k];
    }
  for (int64_t i = count / kLanes * kLanes; i < count; ++i) {
    low[0] = x[i] < low[0] ? x[i] : low[0];
    high[0] = high[0] < x[i] ? x[i] : high[0];
  }
  *lows = least_of_lanes(low);
  *highs = greatest_of_lanes(high);
}

// Clamps before rounding, which gives the same bytes because the bounds are whole numbers. NaN
// becomes the lowest byte. Adding and subtracting `rounder` rounds half to even (vector_math.h).
template <typename Real>
[[gnu::always_inline]] inline void quantize_loop(const float* x, uint8_t* __restrict y,
                                                 int64_t count, Real inverse, Real offset, Real low,
                                                 Real high, Real rounder, int shift) {
  for (int64_t i = 0; i < count; ++i) {
    Real v = static_cast<Real>(x[i]) * inverse + offset;
    v = v > low ? v : low;
    v = v < high ? v : high;
    y[i] = static_cast<uint8_t>(static_cast<int>((v + rounder) - rounder) + shift);
  }
}

// Finds the least and greatest of x and 0, ignoring NaN.
inline void find_range(const float* x, int64_t count, float* low, float* high) {
  run_vectorized([&]() __attribute__((always_inline)) { find_range_loop(x, count, low, high); });
}

// y = round(x / scale) + zero_point, clamped to the range of `mapping` and shifted so that
// quant_min becomes `lowest`: 0 stores u8, -128 stores s8. The zero point is added after rounding,
// or before rounding in double when mapping.rounds_last().
inline void quantize_block(const float* x, uint8_t* y, int64_t count, const DynamicMapping& mapping,
                           const DynamicStep& step, int lowest = 0) {
  constexpr double kDoubleRounder = 6755399441055744.0;  // 1.5 * 2^52, for |x| below 2^51
  if (mapping.rounds_last()) {
    const double low = static_cast<double>(mapping.quant_min),
                 high = static_cast<double>(mapping.quant_max);
    const int shift = lowest - static_cast<int>(mapping.quant_min);
    run_vectorized([&]() __attribute__((always_inline)) {
      quantize_loop<double>(x, y, count, 1.0 / step.scale, step.zero_point, low, high,
                            kDoubleRounder, shift);
    });
    return;
  }
  const float inverse = 1.0f / static_cast<float>(step.scale),
              zero = static_cast<float>(step.zero_point);
  const int shift = static_cast<int>(zero - mapping.quant_min) + lowest;
  run_vectorized([&]() __attribute__((always_inline)) {
    quantize_loop<float>(x, y, count, inverse, -0.0f, mapping.quant_min - zero,
                         mapping.quant_max - zero, kRounder, shift);
  });
}

// As choose_step, but keeps the zero point in range when the block has infinities; its results are
// meaningless then.
inline DynamicStep choose_byte_step(const DynamicMapping& mapping, float low, float high) {
  const DynamicStep step = choose_step(mapping, low, high);
  const double lowest = static_cast<double>(mapping.quant_min);
  return {step.scale, step.zero_point >= lowest ? step.zero_point : lowest};
}

// ---- supported ops

// Accepts a fake_quantize_dynamic whose integers fit 8 bits.
inline Verdict check_bytes(const ProgramOp& op) {
  constexpr int64_t kMost = 65536;
  const int64_t low = op.get(attr::kQuantMin), high = op.get(attr::kQuantMax),
                zero_point = op.get(attr::kZeroPoint);
  if (low >= high || low < -kMost || high > kMost)
    return Verdict::refuse("the range does not have 8 or 16 bits");
  if (high - low > 255) return Verdict::refuse("the range has more than 256 steps");
  if (mapping_name(op).starts_with("symmetric") && (zero_point < low || zero_point > high))
    return Verdict::refuse("the zero point is outside of the range");
  return Verdict::accept();
}

// The blocks of a fake_quantize_dynamic as groups of whole rows.
struct RowBlocks {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t rows_per_block = 0;
};

// Returns nullopt when a block splits a row or is not a group of neighboring rows. Otherwise the
// op has one block per tensor or per group of rows. shape: at least one dimension.
inline std::optional<RowBlocks> find_row_blocks(const std::vector<int64_t>& shape,
                                                const std::vector<int64_t>& blocks) {
  if (blocks.size() != shape.size() || product(shape) == 0) return std::nullopt;
  // leading dimensions along which every index has its own block; the rest belongs to one block
  size_t enumerated = 0;
  while (enumerated < shape.size() && blocks[enumerated] == shape[enumerated]) ++enumerated;
  int64_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d >= enumerated && blocks[d] != 1) return std::nullopt;
    count *= blocks[d];
  }
  const int64_t rows = product(shape) / shape.back();
  if (count > rows) return std::nullopt;
  return RowBlocks{rows, shape.back(), rows / count};
}

// Weights for an integer product.
struct IntegerWeights {
  Tensor values;             // int8 [out, in], contiguous; filters of convolutions: in any order
  std::vector<float> scale;  // [out]
};

// Returns nullopt unless the constant is stored as int8 with at most one scale per row and zero
// points of 0.
inline std::optional<IntegerWeights> find_integer_weights(const ProgramTensor& w) {
  std::optional<std::vector<float>> scale = find_row_scales(w);
  if (!scale) return std::nullopt;
  const Tensor values = w.stored->integers();
  return IntegerWeights{w.shape.size() > 2 ? values : values.contiguous(), *std::move(scale)};
}

}  // namespace octet
