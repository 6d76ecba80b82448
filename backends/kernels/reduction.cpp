// Sums of floats are accumulated in lanes, sums of bytes in 32 bits.
#include "backends/kernels/reduction.h"

#include <algorithm>
#include <limits>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "core/base/error.h"

namespace octet {
namespace {

constexpr int64_t kInRegisters = 64;  // columns whose results are kept there
constexpr int64_t kColumns = 1024;    // that are read side by side

// NaN wins, as in torch.
struct Greatest {
  template <typename T>
  [[gnu::always_inline]] T operator()(T a, T b) const {
    return b > a || b != b ? b : a;
  }
};
struct Least {
  template <typename T>
  [[gnu::always_inline]] T operator()(T a, T b) const {
    return b < a || b != b ? b : a;
  }
};
struct Plus {
  template <typename T>
  [[gnu::always_inline]] T operator()(T a, T b) const {
    return a + b;
  }
};
struct Times {
  template <typename T>
  [[gnu::always_inline]] T operator()(T a, T b) const {
    return a * b;
  }
};

float start_of(Reduction::Kind kind) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return kind == Reduction::Kind::kMax       ? -kInfinity
         : kind == Reduction::Kind::kMin     ? kInfinity
         : kind == Reduction::Kind::kProduct ? 1
                                             : 0;
}
int32_t start_of_bytes(Reduction::Kind kind) {
  return kind == Reduction::Kind::kMax ? -128 : kind == Reduction::Kind::kMin ? 127 : 0;
}

// Reduces neighboring elements.
template <typename T, typename X, typename Combine>
[[gnu::always_inline]] inline T reduce_row(const X* x, int64_t size, T start, uint8_t flip,
                                           const Combine& combine) {
  T lanes[kRowLanes];
  for (int64_t k = 0; k < kRowLanes; ++k) lanes[k] = start;
  const int64_t whole = size / kRowLanes * kRowLanes;
  for (int64_t i = 0; i < whole; i += kRowLanes)
    for (int64_t k = 0; k < kRowLanes; ++k) lanes[k] = combine(lanes[k], number_of(x[i + k], flip));
  T result = combine_lanes(lanes, combine);
  for (int64_t i = whole; i < size; ++i) result = combine(result, number_of(x[i], flip));
  return result;
}

// Reduces neighboring columns whose elements are `inner` apart.
template <typename T, typename X, typename Combine>
[[gnu::always_inline]] inline void reduce_columns(const X* x, int64_t size, int64_t inner,
                                                  int64_t count, T start, uint8_t flip,
                                                  const Combine& combine, T* results) {
  for (int64_t k = 0; k < count; ++k) results[k] = start;
  if (count == kInRegisters) {  // a number that the compiler knows
    for (int64_t i = 0; i < size; ++i)
      for (int64_t k = 0; k < kInRegisters; ++k)
        results[k] = combine(results[k], number_of(x[i * inner + k], flip));
  } else {
    for (int64_t i = 0; i < size; ++i)
      for (int64_t k = 0; k < count; ++k)
        results[k] = combine(results[k], number_of(x[i * inner + k], flip));
  }
}

// Converts a reduced number to a real: (number - shift) * factor, in steps of y when y has bytes.
struct Meaning {
  float factor;
  float shift;
};
Meaning meaning_of(const Reduction& r) {
  const bool adds = r.kind == Reduction::Kind::kSum || r.kind == Reduction::Kind::kMean;
  const double size = static_cast<double>(r.size), scale = r.from ? double{r.from->scale} : 1,
               zero = r.from ? r.from->zero_point : 0, step = r.to ? double{r.to->scale} : 1;
  return {static_cast<float>(scale / step / (r.kind == Reduction::Kind::kMean ? size : 1)),
          static_cast<float>(zero * (adds ? size : 1))};
}

template <typename T, typename X, typename Combine>
void reduce(const Reduction& r, T start, const Combine& combine, const std::byte* from,
            std::byte* to, const Parallel& parallel) {
  const X* const x = reinterpret_cast<const X*>(from);
  const Meaning meaning = meaning_of(r);
  const ByteOutput output = r.to ? byte_output({1, r.to->zero_point, r.to->flip}) : ByteOutput{};
  const bool is_byte = r.to.has_value();
  const uint8_t flip = r.from ? r.from->flip : 0;
  const int64_t parts_per_row = (r.inner + kColumns - 1) / kColumns;
  parallel(
      r.outer * parts_per_row, r.size * std::min(r.inner, kColumns),
      [&](int64_t first, int64_t last) {
        run_vectorized([=, size = r.size, inner = r.inner, low = r.low,
                        high = r.high]() __attribute__((always_inline)) {
          for (int64_t part = first; part < last; ++part) {
            const int64_t outer = part / parts_per_row, column = part % parts_per_row * kColumns,
                          count = std::min(kColumns, inner - column);
            const X* const row = x + outer * size * inner + column;
            T results[kColumns];
            if (inner == 1)
              results[0] = reduce_row(row, size, start, flip, combine);
            else
              reduce_columns(row, size, inner, count, start, flip, combine, results);
            const int64_t at = outer * inner + column;
            for (int64_t k = 0; k < count; ++k) {
              // keeps NaN
              const float real = std::min(
                  std::max((static_cast<float>(results[k]) - meaning.shift) * meaning.factor, low),
                  high);
              if (is_byte)
                reinterpret_cast<int8_t*>(to)[at + k] = byte_of_steps(real, output);
              else
                reinterpret_cast<float*>(to)[at + k] = real;
            }
          }
        });
      });
}

template <typename T, typename X>
void run_typed(const Reduction& r, T start, const std::byte* from, std::byte* to,
               const Parallel& parallel) {
  switch (r.kind) {
    case Reduction::Kind::kSum:
    case Reduction::Kind::kMean: return reduce<T, X>(r, start, Plus{}, from, to, parallel);
    case Reduction::Kind::kProduct: return reduce<T, X>(r, start, Times{}, from, to, parallel);
    case Reduction::Kind::kMax: return reduce<T, X>(r, start, Greatest{}, from, to, parallel);
    case Reduction::Kind::kMin: return reduce<T, X>(r, start, Least{}, from, to, parallel);
  }
}

}  // namespace

void Reduction::run(std::span<const std::byte* const> inputs, std::byte* output, std::byte*,
                    const Parallel& parallel) const {
  OCTET_ASSERT(!from || kind != Kind::kProduct, "a product of bytes");
  if (from)
    return run_typed<int32_t, int8_t>(*this, start_of_bytes(kind), inputs[0], output, parallel);
  run_typed<float, float>(*this, start_of(kind), inputs[0], output, parallel);
}

std::optional<Reduction::Kind> find_reduction(std::string_view function) {
  if (function == "sum") return Reduction::Kind::kSum;
  if (function == "prod") return Reduction::Kind::kProduct;
  if (function == "max") return Reduction::Kind::kMax;
  if (function == "min") return Reduction::Kind::kMin;
  return std::nullopt;
}

}  // namespace octet
