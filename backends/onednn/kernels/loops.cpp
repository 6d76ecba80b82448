// The innermost runs are vectorized. Images are quantized block by block, then interleaved.
#include "backends/onednn/kernels/loops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "backends/kernels/isa.h"
#include "backends/kernels/strided.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

struct ElementwiseRow {
  // kAdd: y = a*factor_a + b*factor_b + bias; kMul: (a + offset_a) * (b + offset_b) * factor_a
  float factor_a, factor_b;
  float offset_a, offset_b, bias;
  ByteOutput output;  // of y in its steps
};

template <Elementwise kKind, bool kRepeatB>
[[gnu::always_inline]] inline void elementwise_row(const uint8_t* a, const uint8_t* b, int8_t* y,
                                                   int64_t count, ElementwiseRow p) {
  const float repeated = static_cast<float>(b[0]);
  for (int64_t i = 0; i < count; ++i) {
    const float fa = static_cast<float>(a[i]);
    const float fb = kRepeatB ? repeated : static_cast<float>(b[i]);
    y[i] = byte_of_steps(kKind == Elementwise::kAdd
                             ? fa * p.factor_a + (fb * p.factor_b + p.bias)
                             : ((fa + p.offset_a) * (fb + p.offset_b)) * p.factor_a,
                         p.output);
  }
}

template <Elementwise kKind, bool kRepeatB>
Loop elementwise_walk(const Walk& walk, const ElementwiseRow& p) {
  return [=](std::byte* const* arguments) {
    const uint8_t* a = reinterpret_cast<const uint8_t*>(arguments[0]);
    const uint8_t* b = reinterpret_cast<const uint8_t*>(arguments[1]);
    int8_t* y = reinterpret_cast<int8_t*>(arguments[2]);
    for_each_run(walk, on_openmp(), [&](const std::array<int64_t, 3>& at, int64_t count) {
      run_vectorized([&]() __attribute__((always_inline)) {
        elementwise_row<kKind, kRepeatB>(a + at[1], b + at[2], y + at[0], count, p);
      });
    });
  };
}

template <typename T>
Loop look_up(std::array<T, 256> table, int64_t count) {
  return [table, count](std::byte* const* arguments) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(arguments[0]);
    T* to = reinterpret_cast<T*>(arguments[1]);
    on_openmp().chunks(count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) to[i] = table[from[i]];
    });
  };
}

// Whether some elements are copied several times.
bool repeats(const Stored& from) {
  for (size_t i = 0; i < from.shape.size(); ++i)
    if (from.shape[i] != 1 && from.strides[i] == 0) return true;
  return false;
}

// ---- floats

struct RealRow {
  float factor_a, factor_b;
  float low, high;
};

// Steps of 0 and 1 are compile-time constants, others are not.
template <Elementwise kKind, int kStepA, int kStepB>
[[gnu::always_inline]] inline void real_row(const float* a, int64_t step_a, const float* b,
                                            int64_t step_b, float* y, int64_t count, RealRow p) {
  if (kStepA >= 0) step_a = kStepA;
  if (kStepB >= 0) step_b = kStepB;
  for (int64_t i = 0; i < count; ++i) {
    const float from_a = a[i * step_a], from_b = b[i * step_b];
    float v =
        kKind == Elementwise::kAdd ? from_a * p.factor_a + from_b * p.factor_b : from_a * from_b;
    v = v < p.low ? p.low : v;
    y[i] = v > p.high ? p.high : v;
  }
}

template <Elementwise kKind>
[[gnu::always_inline]] inline void real_row(const float* a, int64_t step_a, const float* b,
                                            int64_t step_b, float* y, int64_t count, RealRow p) {
  if (step_a == 1 && step_b == 1) return real_row<kKind, 1, 1>(a, 1, b, 1, y, count, p);
  if (step_a == 1 && step_b == 0) return real_row<kKind, 1, 0>(a, 1, b, 0, y, count, p);
  if (step_a == 0 && step_b == 1) return real_row<kKind, 0, 1>(a, 0, b, 1, y, count, p);
  real_row<kKind, -1, -1>(a, step_a, b, step_b, y, count, p);
}

template <Elementwise kKind>
Loop real_walk(const Walk& walk, const RealRow& p) {
  const int64_t step_a = walk.steps.back()[1], step_b = walk.steps.back()[2];
  return [=](std::byte* const* arguments) {
    const float* a = reinterpret_cast<const float*>(arguments[0]);
    const float* b = reinterpret_cast<const float*>(arguments[1]);
    float* y = reinterpret_cast<float*>(arguments[2]);
    for_each_run(walk, on_openmp(), [&](const std::array<int64_t, 3>& offsets, int64_t count) {
      run_vectorized([&]() __attribute__((always_inline)) {
        real_row<kKind>(a + offsets[1], step_a, b + offsets[2], step_b, y + offsets[0], count, p);
      });
    });
  };
}

// ---- images

// pixels whose bytes stay in the L1 cache until they are interleaved
constexpr int64_t kTableBlock = 256;

using Bytes = uint8_t __attribute__((vector_size(16)));

[[gnu::always_inline]] inline Bytes load(const int8_t* from) {
  Bytes bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return bytes;
}

// y[3i + c] = planes[c][i], for a multiple of 16 pixels. Makes 16 bytes with two shuffles: the
// first places the bytes of planes 0 and 1 (16 and up), with arbitrary bytes in the places of plane
// 2; the second inserts those:
//
//   a0 b0 .. a1 b1 .. a2 b2 ..   ->   a0 b0 c0 a1 b1 c1 a2 b2 c2
//
// The orders are constants, so each shuffle compiles to one instruction.
[[gnu::always_inline]] inline void interleave(const int8_t (&planes)[3][kTableBlock], int8_t* y,
                                              int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const Bytes a = load(planes[0] + i), b = load(planes[1] + i), c = load(planes[2] + i);
    const Bytes two[3] = {
        __builtin_shufflevector(a, b, 0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5),
        __builtin_shufflevector(a, b, 21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26),
        __builtin_shufflevector(a, b, 0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0)};
    const Bytes three[3] = {
        __builtin_shufflevector(two[0], c, 0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15),
        __builtin_shufflevector(two[1], c, 0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15),
        __builtin_shufflevector(two[2], c, 26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14,
                                31)};
    std::memcpy(y + 3 * i, three, sizeof(three));
  }
}

// Quantizes `count` pixels of planes that are `plane` elements apart.
[[gnu::always_inline]] inline void quantize_pixels(const float* x, int64_t plane, int8_t* y,
                                                   int64_t count, ByteOutput output) {
  int8_t planes[3][kTableBlock];
  for (int64_t first = 0; first < count; first += kTableBlock) {
    const int64_t pixels = std::min(kTableBlock, count - first);
    for (int c = 0; c < 3; ++c) round_to_bytes(x + c * plane + first, planes[c], pixels, output);
    const int64_t whole = pixels / 16 * 16;
    interleave(planes, y + 3 * first, whole);
    for (int64_t i = whole; i < pixels; ++i)
      for (int c = 0; c < 3; ++c) y[3 * (first + i) + c] = planes[c][i];
  }
}

}  // namespace

Loop elementwise_loop(Elementwise kind, const Stored& a, double factor_a, const Stored& b,
                      double factor_b, const Stored& to, const Clamp& clamp) {
  const Walk walk = plan_walk(to.shape, to.strides, a.strides, b.strides);
  const std::array<int64_t, 3>& inner = walk.steps.back();
  OCTET_ASSERT(inner[0] == 1 || walk.counts.back() == 1, "the output has gaps");
  if (inner[1] != 1 && walk.counts.back() != 1) {
    if (inner[2] != 1) throw Refusal{"both inputs repeat along the innermost dimension"};
    return [swapped = elementwise_loop(kind, b, factor_b, a, factor_a, to, clamp)](
               std::byte* const* arguments) {
      std::byte* const in_order[] = {arguments[1], arguments[0], arguments[2]};
      swapped(in_order);
    };
  }
  if (inner[2] != 1 && inner[2] != 0 && walk.counts.back() != 1)
    throw Refusal{"the inputs' memory orders do not fit"};
  ElementwiseRow p{};
  const double za = a.quant_params.zero_point;
  const double zb = b.quant_params.zero_point;
  if (kind == Elementwise::kAdd) {
    const double ka = a.quant_params.scale * factor_a / to.quant_params.scale;
    const double kb = b.quant_params.scale * factor_b / to.quant_params.scale;
    p.factor_a = static_cast<float>(ka);
    p.factor_b = static_cast<float>(kb);
    p.bias = static_cast<float>(-za * ka - zb * kb);
  } else {
    p.factor_a = static_cast<float>(static_cast<double>(a.quant_params.scale) *
                                    b.quant_params.scale / to.quant_params.scale);
    p.offset_a = static_cast<float>(-za);
    p.offset_b = static_cast<float>(-zb);
  }
  p.output = byte_output_of({to.quant_params.type, 1, to.quant_params.zero_point},
                            clamp_in_steps(to.quant_params, clamp));
  const bool repeats_b = inner[2] == 0 && walk.counts.back() != 1;
  if (kind == Elementwise::kAdd)
    return repeats_b ? elementwise_walk<Elementwise::kAdd, true>(walk, p)
                     : elementwise_walk<Elementwise::kAdd, false>(walk, p);
  return repeats_b ? elementwise_walk<Elementwise::kMul, true>(walk, p)
                   : elementwise_walk<Elementwise::kMul, false>(walk, p);
}

Loop table_loop(const Stored& from, const Stored& to,
                const std::function<double(double)>& function) {
  const QuantParams& q = from.quant_params;
  const int64_t count = from.numel();
  std::array<uint8_t, 256> bytes{};
  std::array<float, 256> reals{};
  for (int i = 0; i < 256; ++i) {
    const int value = q.type == ElementType::s8 ? static_cast<int8_t>(i) : i;
    const double real = function(static_cast<double>(q.scale) * (value - q.zero_point));
    reals[static_cast<size_t>(i)] = static_cast<float>(real);
    if (to.quant_params.is_integer())
      bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(quantize_one(real, to.quant_params));
  }
  return to.quant_params.is_integer() ? look_up(bytes, count) : look_up(reals, count);
}

Loop quantize_loop(int64_t count, const QuantParams& to, const StepRange& range) {
  return [count, output = byte_output_of(to, range)](std::byte* const* arguments) {
    const float* x = reinterpret_cast<const float*>(arguments[0]);
    int8_t* y = reinterpret_cast<int8_t*>(arguments[1]);
    on_openmp().chunks(count, [&](int64_t first, int64_t last) {
      run_vectorized([=]() __attribute__((always_inline)) {
        round_to_bytes(x + first, y + first, last - first, output);
      });
    });
  };
}

Loop dequantize_loop(int64_t count, const QuantParams& from) {
  return [count, from](std::byte* const* arguments) {
    float* y = reinterpret_cast<float*>(arguments[1]);
    const bool is_signed = from.type == ElementType::s8;
    on_openmp().chunks(count, [&](int64_t first, int64_t last) {
      run_vectorized([&]() __attribute__((always_inline)) {
        const std::byte* x = arguments[0] + first;
        is_signed ? make_real(reinterpret_cast<const int8_t*>(x), y + first, last - first,
                              from.scale, from.zero_point)
                  : make_real(reinterpret_cast<const uint8_t*>(x), y + first, last - first,
                              from.scale, from.zero_point);
      });
    });
  };
}

Loop shift_loop(int64_t count) {
  return [count](std::byte* const* arguments) {
    on_openmp().chunks(count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) arguments[1][i] = arguments[0][i] ^ std::byte{128};
    });
  };
}

Loop copy_loop(const Stored& from, const Stored& to) {
  return loop_of(StridedCopy({to.shape,
                              from.strides,
                              to.strides,
                              0,
                              0,
                              static_cast<size_t>(bytes_of(to.quant_params.type)),
                              {}}),
                 1, false);
}

bool is_custom_copy(const Stored& from, const Stored& to) {
  const Walk walk = plan_walk(to.shape, to.strides, from.strides, to.strides);
  const bool has_long_runs =
      walk.steps.back()[0] == 1 && walk.steps.back()[1] == 1 && walk.counts.back() >= 32;
  return has_long_runs || repeats(from) || from.shape.empty();
}

Loop fill_loop(const Stored& to, double real) {
  const size_t count = static_cast<size_t>(to.numel());
  const float value = static_cast<float>(real);
  const bool is_integer = to.quant_params.is_integer(), is_words = to.quant_params.type == kS16;
  const int steps = is_integer ? quantize_one(real, to.quant_params) : 0;
  return [=](std::byte* const* arguments) {
    if (is_words) {
      std::fill_n(reinterpret_cast<int16_t*>(arguments[0]), count, static_cast<int16_t>(steps));
    } else if (is_integer) {
      std::memset(arguments[0], steps, count);
    } else {
      std::fill_n(reinterpret_cast<float*>(arguments[0]), count, value);
    }
  };
}

Loop real_loop(Elementwise kind, const Stored& a, float factor_a, const Stored& b, float factor_b,
               const Stored& to, const Clamp& clamp) {
  const Walk walk = plan_walk(to.shape, to.strides, a.strides, b.strides);
  OCTET_ASSERT(walk.steps.back()[0] == 1 || walk.counts.back() == 1, "the output has gaps");
  const float infinity = std::numeric_limits<float>::infinity();
  const RealRow p = {factor_a, factor_b, clamp.min ? static_cast<float>(*clamp.min) : -infinity,
                     clamp.max ? static_cast<float>(*clamp.max) : infinity};
  return kind == Elementwise::kAdd ? real_walk<Elementwise::kAdd>(walk, p)
                                   : real_walk<Elementwise::kMul>(walk, p);
}

Loop image_loop(const Stored& from, const Stored& to) {
  OCTET_ASSERT(from.shape.size() == 4 && from.shape[1] == 3 && !from.quant_params.is_integer() &&
                   to.quant_params.is_integer(),
               "three planes of floats");
  const int64_t batch = from.shape[0];
  const int64_t pixels = from.shape[2] * from.shape[3];
  const ByteOutput output =
      byte_output_of(to.quant_params, {to.quant_params.lowest(), to.quant_params.highest()});
  return [=](std::byte* const* arguments) {
    for (int64_t n = 0; n < batch; ++n) {
      const float* x = reinterpret_cast<const float*>(arguments[0]) + n * 3 * pixels;
      int8_t* y = reinterpret_cast<int8_t*>(arguments[1]) + n * 3 * pixels;
      on_openmp().chunks(pixels, [&](int64_t first, int64_t last) {
        run_vectorized([&]() __attribute__((always_inline)) {
          quantize_pixels(x + first, pixels, y + 3 * first, last - first, output);
        });
      });
    }
  };
}

}  // namespace octet::onednn
