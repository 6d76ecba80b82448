// The loops; each is compiled for several instruction sets and cut into parts for the threads.
#include "backends/onednn/onednn_rows.h"

#include <cstring>
#include <limits>

#include "backends/onednn/onednn_isa.h"

namespace octet::onednn {
namespace {

// Adding and subtracting these rounds half to even, for |x| below 2^22 and 2^51.
constexpr float kRounder = 12582912.0f;
constexpr double kDoubleRounder = 6755399441055744.0;

// The loops take what they need by value: through references, a store to bytes could change it.

// The least and greatest of x and 0; NaNs do not count.
[[gnu::always_inline]] inline void find_range_loop(const float* x, int64_t count, float* lows, float* highs) {
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
  *lows = *std::min_element(low, low + kLanes);
  *highs = *std::max_element(high, high + kLanes);
}

// The clamp stands before the rounding, which is the same for whole bounds.
template <typename Real>
[[gnu::always_inline]] inline void quantize_loop(const float* x, uint8_t* __restrict y, int64_t count, Real inverse, Real offset, Real low, Real high,
                                                 Real rounder, int shift) {
  for (int64_t i = 0; i < count; ++i) {
    Real v = static_cast<Real>(x[i]) * inverse + offset;
    v = v < low ? low : v;
    v = v > high ? high : v;
    y[i] = static_cast<uint8_t>(static_cast<int>((v + rounder) - rounder) + shift);
  }
}

[[gnu::always_inline]] inline void dequantize_loop(const uint8_t* x, float* __restrict y, int64_t count, float scale, int zero_point) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i] - zero_point) * scale;
}

struct RowTerms {
  float scale;
  int32_t zero_point;
  float low, high;
};

[[gnu::always_inline]] inline void scale_loop(const int32_t* sums, float* y, int64_t count, const int32_t* column_sums, const float* column_scale,
                                              const float* bias, RowTerms row) {
  for (int64_t i = 0; i < count; ++i) {
    float v = static_cast<float>(sums[i] - row.zero_point * column_sums[i]) * (row.scale * column_scale[i]) + bias[i];
    v = v < row.low ? row.low : v;
    y[i] = v > row.high ? row.high : v;
  }
}

// u8 = round(x / scale) + zero point - quant_min, clamped.
void quantize_block(const float* x, uint8_t* y, int64_t count, const DynamicMapping& mapping, const DynamicStep& step) {
  const float inverse = 1.0f / static_cast<float>(step.scale), zero = static_cast<float>(step.zero_point);
  const int shift = static_cast<int>(zero - mapping.quant_min);
  run_vectorised([&]() __attribute__((always_inline)) {
    quantize_loop<float>(x, y, count, inverse, -0.0f, mapping.quant_min - zero, mapping.quant_max - zero, kRounder, shift);
  });
}

// The same with the zero point added before rounding, in double.
void quantize_block_in_double(const float* x, uint8_t* y, int64_t count, const DynamicMapping& mapping, const DynamicStep& step) {
  const double low = static_cast<double>(mapping.quant_min), high = static_cast<double>(mapping.quant_max);
  run_vectorised([&]() __attribute__((always_inline)) {
    quantize_loop<double>(x, y, count, 1.0 / step.scale, step.zero_point, low, high, kDoubleRounder, -static_cast<int>(mapping.quant_min));
  });
}

template <typename T>
T* at(std::byte* const* arguments, size_t i) {
  return reinterpret_cast<T*>(arguments[i]);
}

}  // namespace

DynamicRows add_quantize_rows(SegmentBuilder& builder, Place x, int64_t rows, int64_t width, int64_t rows_per_block, const DynamicMapping& mapping) {
  const int64_t blocks = rows / rows_per_block;
  DynamicRows result{builder.allocate({rows, width}, {ElementType::u8, 1, 0}, {width, 1}).place,
                     builder.allocate({blocks}, {}, {1}).place,
                     builder.allocate({blocks}, {ElementType::s32, 1, 0}, {1}).place,
                     rows,
                     width,
                     rows_per_block};
  const int64_t elements = rows_per_block * width;
  Loop loop = [=](std::byte* const* arguments) {
    for_parts(blocks, elements, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        const float* from = at<const float>(arguments, 0) + b * elements;
        float low = 0, high = 0;
        run_vectorised([&]() __attribute__((always_inline)) { find_range_loop(from, elements, &low, &high); });
        const DynamicStep step = choose_step(mapping, low, high);
        at<float>(arguments, 2)[b] = static_cast<float>(step.scale);
        at<int32_t>(arguments, 3)[b] = static_cast<int32_t>(step.zero_point - static_cast<double>(mapping.quant_min));
        uint8_t* to = at<uint8_t>(arguments, 1) + b * elements;
        mapping.rounds_last() ? quantize_block_in_double(from, to, elements, mapping, step) : quantize_block(from, to, elements, mapping, step);
      }
    });
  };
  builder.add_loop("quantize at run time", std::move(loop), {x, result.values, result.scale, result.zero_point});
  return result;
}

void add_dequantize_rows(SegmentBuilder& builder, const DynamicRows& x, Place y) {
  const int64_t elements = x.rows_per_block * x.width;
  const int64_t blocks = x.rows / x.rows_per_block;
  Loop loop = [=](std::byte* const* arguments) {
    for_parts(blocks, elements, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        const uint8_t* from = at<const uint8_t>(arguments, 0) + b * elements;
        float* to = at<float>(arguments, 3) + b * elements;
        const float scale = at<const float>(arguments, 1)[b];
        const int zero_point = at<const int32_t>(arguments, 2)[b];
        run_vectorised([&]() __attribute__((always_inline)) { dequantize_loop(from, to, elements, scale, zero_point); });
      }
    });
  };
  builder.add_loop("dequantize", std::move(loop), {x.values, x.scale, x.zero_point, y});
}

void add_scale_rows(SegmentBuilder& builder, const DynamicRows& x, Place sums, const ColumnTerms& columns, const Clamp& clamp) {
  const int64_t n = static_cast<int64_t>(columns.sums.size());
  const int64_t rows_per_block = x.rows_per_block, rows = x.rows;
  const float low = clamp.min ? static_cast<float>(*clamp.min) : -std::numeric_limits<float>::infinity();
  const float high = clamp.max ? static_cast<float>(*clamp.max) : std::numeric_limits<float>::infinity();
  Loop loop = [=](std::byte* const* arguments) {
    const int32_t* column_sums = at<const int32_t>(arguments, 3);
    const float* column_scale = at<const float>(arguments, 4);
    const float* bias = at<const float>(arguments, 5);
    for_parts(rows, n, [&](int64_t first, int64_t last) {
      for (int64_t m = first; m < last; ++m) {
        const RowTerms row = {at<const float>(arguments, 1)[m / rows_per_block], at<const int32_t>(arguments, 2)[m / rows_per_block], low, high};
        const int32_t* from = at<const int32_t>(arguments, 0) + m * n;
        float* to = at<float>(arguments, 0) + m * n;
        run_vectorised([&]() __attribute__((always_inline)) { scale_loop(from, to, n, column_sums, column_scale, bias, row); });
      }
    });
  };
  builder.add_loop("scale", std::move(loop),
                   {sums, x.scale, x.zero_point, builder.add_integers(columns.sums).place, builder.add_floats(columns.scale).place,
                    builder.add_floats(columns.bias).place});
}

}  // namespace octet::onednn
