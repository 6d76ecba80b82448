// Reads packed weights in the inner loops of weight-only products (weight_product.h describes the
// layout): a word of 32 bits per output holds 8 weights of 4 bits or 4 of 8, and a shift extends
// the sign of one of them in all outputs of a vector at once.
//
//   word of an output    w7 w6 w5 w4 w3 w2 w1 w0       4 bits each
//   weight 2             (word << 20) >> 28            w2 is at the top, then at the bottom
//
// Also declares the products in bfloat16 (weight_product_bfloat.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/kernels/isa.h"
#include "backends/kernels/weight_product.h"

namespace octet {

struct WeightArguments {
  const float* x;
  const int32_t* values;
  const std::byte* scale;  // f32 or bfloat16
  const float *shift, *bias;
  float* y;
  const float* group_sums;  // of x: [rows, groups]
};

inline int64_t divide_up(int64_t value, int64_t step) { return (value + step - 1) / step; }

inline int64_t words_per_group(const WeightProduct& p) {
  return divide_up(p.in / p.groups, 32 / p.bits);
}

// The scales from scale `at` on, one for each output of a vector.
template <int64_t kLanes>
[[gnu::always_inline]] inline void read_scales(const WeightProduct& p, const WeightArguments& a,
                                               int64_t at,
                                               typename VectorOf<kLanes>::Floats& scales) {
  using Floats = typename VectorOf<kLanes>::Floats;
  using Ints = typename VectorOf<kLanes>::Ints;
  using Shorts [[gnu::vector_size(kLanes * sizeof(uint16_t)), gnu::aligned(2), gnu::may_alias]] =
      uint16_t;
  if (!p.has_bfloat_scales) {
    scales = *reinterpret_cast<const Floats*>(a.scale + at * 4);
    return;
  }
  const Shorts& halves = *reinterpret_cast<const Shorts*>(a.scale + at * 2);
  const Ints wide = __builtin_convertvector(halves, Ints) << 16;
  std::memcpy(&scales, &wide, sizeof(scales));
}

// Weight i of each word as floats.
template <int kBits, int i, int64_t kLanes>
[[gnu::always_inline]] inline void read_weights(const typename VectorOf<kLanes>::Ints& words,
                                                typename VectorOf<kLanes>::Floats& weights) {
  using Floats = typename VectorOf<kLanes>::Floats;
  using Ints = typename VectorOf<kLanes>::Ints;
#if !defined(__clang__)
  if constexpr (kBits == 4 && kLanes == 16) {  // one instruction, which reads the lowest 4 bits
    const Floats signed_nibbles = {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    weights = __builtin_shuffle(signed_nibbles, words >> (kBits * i));
    return;
  }
#endif
  const Ints extended = (words << (32 - kBits * (i + 1))) >> (32 - kBits);
  weights = __builtin_convertvector(extended, Floats);
}

inline constexpr int64_t kPanel = 3;         // vectors of outputs of a block
inline constexpr int64_t kBlockDepth = 256;  // inputs of a block

// Neighboring words of a vector of outputs, and the inputs that they multiply.
struct Block {
  int64_t word, end;
  int64_t input, inputs;
};

inline Block block_at(const WeightProduct& p, int64_t word) {
  const int64_t per_word = 32 / p.bits, group = p.in / p.groups, words = words_per_group(p);
  const int64_t end = std::min(word + kBlockDepth / per_word, p.groups * words);
  const auto input = [&](int64_t w) {
    return w / words * group + std::min(w % words * per_word, group);
  };
  return {word, end, input(word), input(end) - input(word)};
}

// Weights of `count` inputs.
template <int kBits, int64_t kLanes, int i = 0>
[[gnu::always_inline]] inline void expand_word(const typename VectorOf<kLanes>::Ints& words,
                                               const typename VectorOf<kLanes>::Floats& scale,
                                               const typename VectorOf<kLanes>::Floats& shift,
                                               float* to, int64_t step, int64_t count) {
  if constexpr (i * kBits < 32) {
    if (i >= count) return;
    typename VectorOf<kLanes>::Floats weights;
    read_weights<kBits, i, kLanes>(words, weights);
    *reinterpret_cast<typename VectorOf<kLanes>::Floats*>(to + i * step) = weights * scale - shift;
    expand_word<kBits, kLanes, i + 1>(words, scale, shift, to, step, count);
  }
}

// to: [inputs, step], of which vector n of outputs takes kLanes.
template <int kBits, int64_t kLanes>
[[gnu::always_inline]] inline void expand(const WeightProduct& p, const WeightArguments& a,
                                          int64_t n, const Block& block, float* to, int64_t step) {
  using Floats = typename VectorOf<kLanes>::Floats;
  using Ints = typename VectorOf<kLanes>::Ints;
  constexpr int64_t kPerWord = 32 / kBits;
  const int64_t group = p.in / p.groups, words = words_per_group(p);
  const int32_t* values = a.values + (n * p.groups * words + block.word) * kLanes;
  int64_t g = block.word / words, k = block.word % words * kPerWord;
  for (int64_t word = block.word; word < block.end; ++g, k = 0) {
    const int64_t at = (n * p.groups + g) * kLanes;
    Floats scale;
    read_scales<kLanes>(p, a, at, scale);
    const Floats shift =
        p.has_zero_points ? *reinterpret_cast<const Floats*>(a.shift + at) : Floats{};
    for (; k < group && word < block.end; k += kPerWord, ++word, values += kLanes) {
      const int64_t count = std::min(kPerWord, group - k);
      const Ints& some = *reinterpret_cast<const Ints*>(values);
      if (count == kPerWord)
        expand_word<kBits, kLanes>(some, scale, shift, to, step, kPerWord);
      else
        expand_word<kBits, kLanes>(some, scale, shift, to, step, count);
      to += count * step;
    }
  }
}

// ---- products of many rows in bfloat16 (weight_product_bfloat.cpp)

// Whether this CPU has the instruction (AVX512-BF16) and groups have an even number of inputs.
bool has_bfloat_product(const WeightProduct& p);
// to: [rows, in] of bfloat16.
void round_to_bfloat(const WeightProduct& p, const float* x, uint16_t* to);
// Computes panels [first, last) of outputs, of kPanel vectors each. x: round_to_bfloat().
void multiply_bfloat_panels(const WeightProduct& p, const WeightArguments& a, const uint16_t* x,
                            int64_t first, int64_t last);

}  // namespace octet
