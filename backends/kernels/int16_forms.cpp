// Loops over every type that an int16 op reads or writes.
#include "backends/kernels/int16_forms.h"

#include <cmath>

#include "backends/kernels/isa.h"

namespace octet {
namespace {

template <typename E, typename T>
void load_elements(const RealForm& form, const std::byte* from, int64_t step, int64_t count,
                   T* to) {
  const E* const x = reinterpret_cast<const E*>(from);
  const T scale = static_cast<T>(form.scale);
  const int32_t zero = form.zero_point;
  const auto real = [=](E value) __attribute__((always_inline)) {
    if constexpr (std::is_same_v<E, float>)
      return static_cast<T>(value);
    else
      return static_cast<T>(static_cast<int32_t>(value) - zero) * scale;
  };
  if (step == 1)
    return run_vectorized([=]() __attribute__((always_inline)) {
      T* __restrict y = to;
      for (int64_t i = 0; i < count; ++i) y[i] = real(x[i]);
    });
  for (int64_t i = 0; i < count; ++i) to[i] = real(x[i * step]);
}

template <typename E, typename T>
void store_elements_as(const T* values, int64_t count, const RealForm& form,
                       const RealLimits& limits, std::byte* to) {
  const T inverse = static_cast<T>(1.0 / static_cast<double>(form.scale)),
          zero = static_cast<T>(form.zero_point), least = static_cast<T>(limits.least),
          most = static_cast<T>(limits.most);
  run_vectorized([=]() __attribute__((always_inline)) {
    const T* __restrict x = values;
    E* __restrict y = reinterpret_cast<E*>(to);
    for (int64_t i = 0; i < count; ++i) {
      T q = std::nearbyint(x[i] * inverse) + zero;
      q = q < least ? least : q;
      q = q > most ? most : q;
      q = q != q ? zero : q;
      y[i] = static_cast<E>(static_cast<int32_t>(q));
    }
  });
}

}  // namespace

template <typename T>
void load_reals(const RealForm& form, const std::byte* from, int64_t step, int64_t count, T* to) {
  switch (form.dtype) {
    case DType::kInt16: return load_elements<int16_t>(form, from, step, count, to);
    case DType::kInt8: return load_elements<int8_t>(form, from, step, count, to);
    case DType::kUInt8: return load_elements<uint8_t>(form, from, step, count, to);
    default: return load_elements<float>(form, from, step, count, to);
  }
}
template void load_reals(const RealForm&, const std::byte*, int64_t, int64_t, float*);
template void load_reals(const RealForm&, const std::byte*, int64_t, int64_t, double*);

template <typename T>
void store_reals(T* values, int64_t count, const RealForm& form, const RealLimits& limits,
                 std::byte* to) {
  if (limits.low > -__builtin_inf() || limits.high < __builtin_inf()) {
    const T low = static_cast<T>(limits.low), high = static_cast<T>(limits.high);
    run_vectorized([=]() __attribute__((always_inline)) {
      T* __restrict x = values;
      for (int64_t i = 0; i < count; ++i) {
        const T least = x[i] < low ? low : x[i];
        x[i] = least > high ? high : least;
      }
    });
  }
  switch (form.dtype) {
    case DType::kInt16: return store_elements_as<int16_t>(values, count, form, limits, to);
    case DType::kInt8: return store_elements_as<int8_t>(values, count, form, limits, to);
    case DType::kUInt8: return store_elements_as<uint8_t>(values, count, form, limits, to);
    default: break;
  }
  run_vectorized([=]() __attribute__((always_inline)) {
    const T* __restrict x = values;
    float* __restrict y = reinterpret_cast<float*>(to);
    for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]);
  });
}
template void store_reals(float*, int64_t, const RealForm&, const RealLimits&, std::byte*);
template void store_reals(double*, int64_t, const RealForm&, const RealLimits&, std::byte*);

}  // namespace octet
