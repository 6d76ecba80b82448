// Quantizes rows of floats to bytes at run time (fake_quantize_dynamic), for backends that multiply
// these bytes: the loops, which blocks they take, and which weights they multiply with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "core/base/report.h"
#include "lowering/program/dynamic_range.h"

namespace octet {

// ---- loops. Their parameters are values: through references, a store to bytes could change them.

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

// Clamps before rounding, which for whole bounds gives the same bytes. NaNs become the lowest byte.
// Adding and subtracting `rounder` rounds half to even (vector_math.h).
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

// The least and greatest of x and 0, without NaNs.
inline void find_range(const float* x, int64_t count, float* low, float* high) {
  run_vectorised([&]() __attribute__((always_inline)) { find_range_loop(x, count, low, high); });
}

// y = round(x / scale) + zero point - lowest, clamped to the mapping's range first. lowest: of the
// bytes, against quant_min: 0 makes u8 from quant_min on, -128 makes s8. The zero point is added
// after rounding, or before in double (least_error).
inline void quantize_block(const float* x, uint8_t* y, int64_t count, const DynamicMapping& mapping,
                           const DynamicStep& step, int lowest = 0) {
  constexpr double kDoubleRounder = 6755399441055744.0;  // 1.5 * 2^52, for |x| below 2^51
  if (mapping.rounds_last()) {
    const double low = static_cast<double>(mapping.quant_min),
                 high = static_cast<double>(mapping.quant_max);
    const int shift = lowest - static_cast<int>(mapping.quant_min);
    run_vectorised([&]() __attribute__((always_inline)) {
      quantize_loop<double>(x, y, count, 1.0 / step.scale, step.zero_point, low, high,
                            kDoubleRounder, shift);
    });
    return;
  }
  const float inverse = 1.0f / static_cast<float>(step.scale),
              zero = static_cast<float>(step.zero_point);
  const int shift = static_cast<int>(zero - mapping.quant_min) + lowest;
  run_vectorised([&]() __attribute__((always_inline)) {
    quantize_loop<float>(x, y, count, inverse, -0.0f, mapping.quant_min - zero,
                         mapping.quant_max - zero, kRounder, shift);
  });
}

// choose_step, with a zero point in the range even where the block has infinities, whose results
// mean nothing.
inline DynamicStep choose_byte_step(const DynamicMapping& mapping, float low, float high) {
  const DynamicStep step = choose_step(mapping, low, high);
  const double lowest = static_cast<double>(mapping.quant_min);
  return {step.scale, step.zero_point >= lowest ? step.zero_point : lowest};
}

// ---- what fits

// Accepts a fake_quantize_dynamic whose integers are bytes.
inline Verdict check_bytes(const ProgramOp& op) {
  constexpr int64_t kMost = 65536;
  const int64_t low = op.get(attr::kQuantMin), high = op.get(attr::kQuantMax),
                zero_point = op.get(attr::kZeroPoint);
  if (low >= high || low < -kMost || high > kMost)
    return Verdict::refuse("the range is none of 8 or 16 bits");
  if (high - low > 255) return Verdict::refuse("the range has more than 256 steps");
  if (mapping_name(op).starts_with("symmetric") && (zero_point < low || zero_point > high))
    return Verdict::refuse("the zero point is outside of the range");
  return Verdict::accept();
}

// The blocks of a fake_quantize_dynamic as runs of whole rows.
struct RowBlocks {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t rows_per_block = 0;
};

// Nothing when a block cuts a row, or is not a run of neighbouring rows; the op has one per tensor
// or per row otherwise. shape: at least one dimension.
inline std::optional<RowBlocks> find_row_blocks(const std::vector<int64_t>& shape,
                                                const std::vector<int64_t>& blocks) {
  if (blocks.size() != shape.size() || product(shape) == 0) return std::nullopt;
  // leading dimensions that the blocks enumerate; the rest is one block each
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

// Weights as an integer product takes them.
struct IntegerWeights {
  Tensor values;             // int8 [out, in], contiguous; of filters in any order
  std::vector<float> scale;  // [out]
};

// Nothing for constants that are not stored as int8 with one scale per row, or fewer, and zero
// points 0.
inline std::optional<IntegerWeights> find_integer_weights(const ProgramTensor& w) {
  if (!w.stored || w.stored->values.dtype() != DType::kInt8 || !w.stored->scale.defined() ||
      w.shape.empty())
    return std::nullopt;
  const Tensor scale = w.stored->scale.contiguous();
  const std::vector<int64_t>& blocks = scale.shape();
  const bool has_groups = std::any_of(blocks.begin() + 1, blocks.end(),
                                      [](int64_t count) { return count != 1; });  // within a row
  if (has_groups) return std::nullopt;
  if (w.stored->zero_point.defined()) {
    const Tensor zero_point = w.stored->zero_point.contiguous();
    for (int64_t i = 0; i < zero_point.numel(); ++i)
      if (zero_point.data<float>()[i] != 0) return std::nullopt;
  }
  IntegerWeights weights{w.shape.size() > 2 ? w.stored->values : w.stored->values.contiguous(), {}};
  const int64_t rows_per_scale = w.shape[0] / scale.shape()[0];
  for (int64_t i = 0; i < w.shape[0]; ++i)
    weights.scale.push_back(scale.data<float>()[i / rows_per_scale]);
  return weights;
}

}  // namespace octet
