// Loops over bytes; the inner ones are compiled for several instruction sets and chosen when the
// segment is compiled.
#include "backends/onednn/kernels/byte_loops.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/onednn/kernels/isa.h"
#include "backends/onednn/kernels/quantize_row.h"
#include "backends/onednn/kernels/walk.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

struct ElementwiseRow {
  // kAdd: y = a*factor_a + b*factor_b + bias; kMul: (a + offset_a) * (b + offset_b) * factor_a
  float factor_a, factor_b;
  float offset_a, offset_b, bias;
  float low, high;  // of y, without the zero point
  int zero_point;   // of u8; s8 outputs flip the top bit afterwards
  uint8_t flip;     // 0 or 128
};

template <Elementwise kKind, bool kRepeatB>
[[gnu::always_inline]] inline void elementwise_row(const uint8_t* a, const uint8_t* b, uint8_t* y,
                                                   int64_t count, const ElementwiseRow& p) {
  const float repeated = static_cast<float>(b[0]);
  for (int64_t i = 0; i < count; ++i) {
    const float fa = static_cast<float>(a[i]);
    const float fb = kRepeatB ? repeated : static_cast<float>(b[i]);
    float v = kKind == Elementwise::kAdd ? fa * p.factor_a + (fb * p.factor_b + p.bias)
                                         : ((fa + p.offset_a) * (fb + p.offset_b)) * p.factor_a;
    v = v < p.low ? p.low : v;
    v = v > p.high ? p.high : v;
    const int rounded = static_cast<int>((v + kRounder) - kRounder);
    y[i] = static_cast<uint8_t>(static_cast<uint8_t>(rounded + p.zero_point) ^ p.flip);
  }
}

using ElementwiseFunction = void (*)(const uint8_t*, const uint8_t*, uint8_t*, int64_t,
                                     const ElementwiseRow&);

template <Elementwise kKind, bool kRepeatB>
void elementwise_generic(const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n,
                         const ElementwiseRow& p) {
  elementwise_row<kKind, kRepeatB>(a, b, y, n, p);
}
#if defined(__x86_64__)
template <Elementwise kKind, bool kRepeatB>
[[gnu::target("avx2,fma")]] void elementwise_avx2(const uint8_t* a, const uint8_t* b, uint8_t* y,
                                                  int64_t n, const ElementwiseRow& p) {
  elementwise_row<kKind, kRepeatB>(a, b, y, n, p);
}
template <Elementwise kKind, bool kRepeatB>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void
elementwise_avx512(const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n,
                   const ElementwiseRow& p) {
  elementwise_row<kKind, kRepeatB>(a, b, y, n, p);
}
#endif

template <Elementwise kKind, bool kRepeatB>
ElementwiseFunction choose_elementwise() {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512)) return elementwise_avx512<kKind, kRepeatB>;
  if (may_use(Isa::kAvx2)) return elementwise_avx2<kKind, kRepeatB>;
#endif
  return elementwise_generic<kKind, kRepeatB>;
}

ElementwiseFunction choose_elementwise(Elementwise kind, bool repeat_b) {
  if (kind == Elementwise::kAdd)
    return repeat_b ? choose_elementwise<Elementwise::kAdd, true>()
                    : choose_elementwise<Elementwise::kAdd, false>();
  return repeat_b ? choose_elementwise<Elementwise::kMul, true>()
                  : choose_elementwise<Elementwise::kMul, false>();
}

using QuantizeFunction = void (*)(const float*, std::byte*, int64_t, const QuantizeRow&);

template <typename Y>
void quantize_generic(const float* x, std::byte* y, int64_t n, const QuantizeRow& p) {
  quantize_row(x, reinterpret_cast<Y*>(y), n, p);
}
#if defined(__x86_64__)
template <typename Y>
[[gnu::target("avx2")]] void quantize_avx2(const float* x, std::byte* y, int64_t n,
                                           const QuantizeRow& p) {
  quantize_row(x, reinterpret_cast<Y*>(y), n, p);
}
template <typename Y>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void quantize_avx512(
    const float* x, std::byte* y, int64_t n, const QuantizeRow& p) {
  quantize_row(x, reinterpret_cast<Y*>(y), n, p);
}
#endif

template <typename Y>
QuantizeFunction choose_quantize() {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512)) return quantize_avx512<Y>;
  if (may_use(Isa::kAvx2)) return quantize_avx2<Y>;
#endif
  return quantize_generic<Y>;
}

template <typename X>
[[gnu::always_inline]] inline void dequantize_row(const X* x, float* __restrict y, int64_t count,
                                                  float scale, int zero_point) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i] - zero_point) * scale;
}

template <typename T>
void copy_run(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t count) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
}

template <typename T>
Loop copy_walk(const Walk& walk) {
  return [walk](std::byte* const* arguments) {
    const T* from = reinterpret_cast<const T*>(arguments[0]);
    T* to = reinterpret_cast<T*>(arguments[1]);
    for_each_run(walk, [&](const std::array<int64_t, 3>& offsets, int64_t count) {
      copy_run(from + offsets[1], walk.steps.back()[1], to + offsets[0], walk.steps.back()[0],
               count);
    });
  };
}

template <typename T>
Loop look_up(std::array<T, 256> table, int64_t count) {
  return [table, count](std::byte* const* arguments) {
    const uint8_t* from = reinterpret_cast<const uint8_t*>(arguments[0]);
    T* to = reinterpret_cast<T*>(arguments[1]);
    for_chunks(count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) to[i] = table[from[i]];
    });
  };
}

// Whether elements stand for several.
bool repeats(const Stored& from) {
  for (size_t i = 0; i < from.shape.size(); ++i)
    if (from.shape[i] != 1 && from.strides[i] == 0) return true;
  return false;
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
  const QuantParams as_u8 = as_unsigned(to.quant_params);
  const StepRange range = clamp_in_steps(as_u8, clamp);
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
  p.zero_point = as_u8.zero_point;
  p.low = static_cast<float>(range.low - as_u8.zero_point);
  p.high = static_cast<float>(range.high - as_u8.zero_point);
  p.flip = to.quant_params.type == ElementType::s8 ? 128 : 0;
  const ElementwiseFunction function =
      choose_elementwise(kind, inner[2] == 0 && walk.counts.back() != 1);
  return [walk, p, function](std::byte* const* arguments) {
    const uint8_t* pa = reinterpret_cast<const uint8_t*>(arguments[0]);
    const uint8_t* pb = reinterpret_cast<const uint8_t*>(arguments[1]);
    uint8_t* py = reinterpret_cast<uint8_t*>(arguments[2]);
    for_each_run(walk, [&](const std::array<int64_t, 3>& offsets, int64_t count) {
      function(pa + offsets[1], pb + offsets[2], py + offsets[0], count, p);
    });
  };
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
  const QuantizeRow p = quantize_row_of(to, range.low, range.high);
  const QuantizeFunction function =
      to.type == ElementType::u8 ? choose_quantize<uint8_t>() : choose_quantize<int8_t>();
  return [=](std::byte* const* arguments) {
    const float* x = reinterpret_cast<const float*>(arguments[0]);
    for_chunks(count, [&](int64_t first, int64_t last) {
      function(x + first, arguments[1] + first, last - first, p);
    });
  };
}

Loop dequantize_loop(int64_t count, const QuantParams& from) {
  return [count, from](std::byte* const* arguments) {
    float* y = reinterpret_cast<float*>(arguments[1]);
    const bool is_signed = from.type == ElementType::s8;
    for_chunks(count, [&](int64_t first, int64_t last) {
      run_vectorised([&]() __attribute__((always_inline)) {
        const std::byte* x = arguments[0] + first;
        is_signed ? dequantize_row(reinterpret_cast<const int8_t*>(x), y + first, last - first,
                                   from.scale, from.zero_point)
                  : dequantize_row(reinterpret_cast<const uint8_t*>(x), y + first, last - first,
                                   from.scale, from.zero_point);
      });
    });
  };
}

Loop shift_loop(int64_t count) {
  return [count](std::byte* const* arguments) {
    for_chunks(count, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) arguments[1][i] = arguments[0][i] ^ std::byte{128};
    });
  };
}

Loop copy_loop(const Stored& from, const Stored& to) {
  const Walk walk = plan_walk(to.shape, to.strides, from.strides, to.strides);
  return bytes_of(to.quant_params.type) == 1 ? copy_walk<uint8_t>(walk) : copy_walk<uint32_t>(walk);
}

bool is_own_copy(const Stored& from, const Stored& to) {
  const Walk walk = plan_walk(to.shape, to.strides, from.strides, to.strides);
  const bool has_long_runs =
      walk.steps.back()[0] == 1 && walk.steps.back()[1] == 1 && walk.counts.back() >= 32;
  return has_long_runs || repeats(from) || from.shape.empty();
}

Loop fill_loop(const Stored& to, double real) {
  const size_t count = static_cast<size_t>(to.numel());
  const float value = static_cast<float>(real);
  const bool is_integer = to.quant_params.is_integer();
  const int steps = is_integer ? quantize_one(real, to.quant_params) : 0;
  return [=](std::byte* const* arguments) {
    if (is_integer) {
      std::memset(arguments[0], steps, count);
    } else {
      std::fill_n(reinterpret_cast<float*>(arguments[0]), count, value);
    }
  };
}

}  // namespace octet::onednn
