// Quantizes, dequantizes and scales rows.
#include "backends/onednn/kernels/rows.h"

#include <limits>

#include "backends/kernels/dynamic_rows.h"

namespace octet::onednn {
namespace {

struct RowTerms {
  float scale;
  int32_t zero_point;
  float low, high;
};

[[gnu::always_inline]] inline void scale_elements(const int32_t* sums, float* y, int64_t count,
                                                  const int32_t* column_sums,
                                                  const float* column_scale, const float* bias,
                                                  RowTerms row) {
  for (int64_t i = 0; i < count; ++i) {
    float v = static_cast<float>(sums[i] - row.zero_point * column_sums[i]) *
                  (row.scale * column_scale[i]) +
              bias[i];
    v = v < row.low ? row.low : v;
    y[i] = v > row.high ? row.high : v;
  }
}

[[gnu::always_inline]] inline void apply(RowFunction function, float* y, int64_t count) {
  if (function == RowFunction::kSilu) {
    for (int64_t i = 0; i < count; ++i) y[i] = y[i] / (1.0f + exponential(-y[i]));
  } else if (function == RowFunction::kGelu) {
    for (int64_t i = 0; i < count; ++i) y[i] = gelu_by_erf(y[i]);
  } else if (function == RowFunction::kGeluTanh) {
    for (int64_t i = 0; i < count; ++i) y[i] = gelu_by_tanh(y[i]);
  }
}

[[gnu::always_inline]] inline void combine(RowOperand operand, float* __restrict y,
                                           const float* other, int64_t count) {
  if (operand == RowOperand::kSummand) {
    for (int64_t i = 0; i < count; ++i) y[i] += other[i];
  } else {
    for (int64_t i = 0; i < count; ++i) y[i] *= other[i];
  }
}

template <typename T>
T* at(std::byte* const* arguments, size_t i) {
  return reinterpret_cast<T*>(arguments[i]);
}

}  // namespace

Loop quantize_rows_loop(const RowSizes& sizes, const DynamicMapping& mapping) {
  const int64_t blocks = sizes.blocks(), elements = sizes.rows_per_block * sizes.width;
  return [=](std::byte* const* arguments) {
    for_parts(blocks, elements, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        const float* from = at<const float>(arguments, 0) + b * elements;
        float low = 0, high = 0;
        find_range(from, elements, &low, &high);
        const DynamicStep step = choose_byte_step(mapping, low, high);
        at<float>(arguments, 2)[b] = static_cast<float>(step.scale);
        at<int32_t>(arguments, 3)[b] =
            static_cast<int32_t>(step.zero_point - static_cast<double>(mapping.quant_min));
        quantize_block(from, at<uint8_t>(arguments, 1) + b * elements, elements, mapping, step);
      }
    });
  };
}

Loop dequantize_rows_loop(const RowSizes& sizes) {
  const int64_t blocks = sizes.blocks(), elements = sizes.rows_per_block * sizes.width;
  return [=](std::byte* const* arguments) {
    for_parts(blocks, elements, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        const uint8_t* from = at<const uint8_t>(arguments, 0) + b * elements;
        float* to = at<float>(arguments, 3) + b * elements;
        const float scale = at<const float>(arguments, 1)[b];
        const int zero_point = at<const int32_t>(arguments, 2)[b];
        run_vectorized([&]() __attribute__((always_inline)) {
          make_real(from, to, elements, scale, zero_point);
        });
      }
    });
  };
}

Loop scale_rows_loop(const RowSizes& sizes, const Clamp& clamp, RowFinish finish) {
  const int64_t n = sizes.width, rows_per_block = sizes.rows_per_block, rows = sizes.rows;
  const float low =
      clamp.min ? static_cast<float>(*clamp.min) : -std::numeric_limits<float>::infinity();
  const float high =
      clamp.max ? static_cast<float>(*clamp.max) : std::numeric_limits<float>::infinity();
  return [=](std::byte* const* arguments) {
    const int32_t* column_sums = at<const int32_t>(arguments, 3);
    const float* column_scale = at<const float>(arguments, 4);
    const float* bias = at<const float>(arguments, 5);
    for_parts(rows, n, [&](int64_t first, int64_t last) {
      for (int64_t m = first; m < last; ++m) {
        const RowTerms row = {at<const float>(arguments, 1)[m / rows_per_block],
                              at<const int32_t>(arguments, 2)[m / rows_per_block], low, high};
        const int32_t* from = at<int32_t>(arguments, 0) + m * n;
        float* to = at<float>(arguments, 0) + m * n;
        run_vectorized([&]() __attribute__((always_inline)) {
          scale_elements(from, to, n, column_sums, column_scale, bias, row);
          apply(finish.function, to, n);
          if (finish.operand != RowOperand::kNone)
            combine(finish.operand, to, at<const float>(arguments, 6) + m * n, n);
        });
      }
    });
  };
}

}  // namespace octet::onednn
