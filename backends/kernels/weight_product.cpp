#include "backends/kernels/weight_product.h"

#include <algorithm>
#include <cstring>

#include "backends/kernels/float_tile.h"
#include "backends/kernels/isa.h"
#include "backends/kernels/weight_blocks.h"
#include "core/base/error.h"
#include "core/base/half.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

constexpr int64_t kFewRows = 4;      // more read weights that were expanded once for all rows
constexpr int64_t kLeastGroup = 32;  // shorter groups spend too much time on scales

// `out` rounded up to whole vectors.
int64_t padded_out(const WeightProduct& p) {
  return divide_up(p.out, vector_floats()) * vector_floats();
}

int64_t words_of(const WeightProduct& p) { return padded_out(p) * p.groups * words_per_group(p); }

int64_t scales_of(const WeightProduct& p) { return padded_out(p) * p.groups; }

int64_t scale_bytes(const WeightProduct& p) { return scales_of(p) * (p.has_bfloat_scales ? 2 : 4); }

// Sums that are added at the end, so that additions need not wait for each other.
template <int64_t kRows>
inline constexpr int kSums = kRows == 1 ? 4 : 2;

template <int64_t kRows, int64_t kLanes>
using Sums = typename VectorOf<kLanes>::Floats[kSums<kRows>][kRows];

// Adds the products of the inputs x[0], x[1], ... of each row, one for each weight in a word.
template <int kBits, int64_t kRows, int64_t kLanes, int i = 0>
[[gnu::always_inline]] inline void add_word(const typename VectorOf<kLanes>::Ints& words,
                                            const float* x, int64_t row_stride,
                                            Sums<kRows, kLanes>& sums) {
  if constexpr (i * kBits < 32) {
    typename VectorOf<kLanes>::Floats weights;
    read_weights<kBits, i, kLanes>(words, weights);
    for (int64_t m = 0; m < kRows; ++m)
      sums[i % kSums<kRows>][m] += weights * x[m * row_stride + i];
    add_word<kBits, kRows, kLanes, i + 1>(words, x, row_stride, sums);
  }
}

// Computes vectors [first, last) of outputs.
template <int kBits, int64_t kRows, int64_t kLanes>
[[gnu::always_inline]] inline void multiply(const WeightProduct& p, const WeightArguments& a,
                                            int64_t first, int64_t last) {
  using Floats = typename VectorOf<kLanes>::Floats;
  using Ints = typename VectorOf<kLanes>::Ints;
  constexpr int64_t kPerWord = 32 / kBits;
  const int64_t group = p.in / p.groups, words = words_per_group(p);
  const int32_t* w = a.values + first * p.groups * words * kLanes;
  for (int64_t n = first; n < last; ++n) {
    Floats total[kRows] = {};
    for (int64_t g = 0; g < p.groups; ++g) {
      Sums<kRows, kLanes> sums = {};
      const float* x = a.x + g * group;
      int64_t k = 0;
      for (; k + kPerWord <= group; k += kPerWord, w += kLanes)
        add_word<kBits, kRows, kLanes>(*reinterpret_cast<const Ints*>(w), x + k, p.in, sums);
      if (k < group) {  // inputs beyond the group may lie outside of x
        float some[kRows * kPerWord] = {};
        for (int64_t m = 0; m < kRows; ++m)
          std::copy(x + m * p.in + k, x + m * p.in + group, some + m * kPerWord);
        add_word<kBits, kRows, kLanes>(*reinterpret_cast<const Ints*>(w), some, kPerWord, sums);
        w += kLanes;
      }
      const int64_t at = (n * p.groups + g) * kLanes;
      Floats scale;
      read_scales<kLanes>(p, a, at, scale);
      for (int64_t m = 0; m < kRows; ++m) {
        Floats sum = sums[0][m] + sums[1][m];
        if constexpr (kSums<kRows> == 4) sum += sums[2][m] + sums[3][m];
        total[m] += sum * scale;
        if (p.has_zero_points)
          total[m] -=
              *reinterpret_cast<const Floats*>(a.shift + at) * a.group_sums[m * p.groups + g];
      }
    }
    const int64_t begin = n * kLanes, count = std::min(kLanes, p.out - begin);
    for (int64_t m = 0; m < kRows; ++m) {
      float results[kLanes];
      *reinterpret_cast<Floats*>(results) = total[m];
      for (int64_t c = 0; c < count; ++c)
        a.y[m * p.out + begin + c] = results[c] + a.bias[begin + c];
    }
  }
}

template <int kBits, int64_t kLanes>
[[gnu::always_inline]] inline void multiply_rows(const WeightProduct& p, const WeightArguments& a,
                                                 int64_t first, int64_t last) {
  switch (p.rows) {
    case 1: return multiply<kBits, 1, kLanes>(p, a, first, last);
    case 2: return multiply<kBits, 2, kLanes>(p, a, first, last);
    case 3: return multiply<kBits, 3, kLanes>(p, a, first, last);
    default: return multiply<kBits, 4, kLanes>(p, a, first, last);
  }
}

// ---- many rows: arithmetic limits the time. A block of weights is expanded to floats that stay in
// a core's cache while all rows are multiplied by it.

// y[rows, count] = from + x * weights, where count is at most the panel's width.
template <int64_t kLanes, int64_t kRows>
[[gnu::always_inline]] inline void multiply_tile(const float* x, int64_t x_step,
                                                 const float* weights, const float* from,
                                                 int64_t from_step, float* y, int64_t y_step,
                                                 int64_t count, int64_t depth) {
  constexpr int64_t kWidth = kPanel * kLanes;
  if (count == kWidth)
    return add_tile<kLanes, kRows, kPanel>(x, x_step, 1, weights, kWidth, from, from_step, y,
                                           y_step, depth);
  float some[kRows * kWidth] = {};
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(from + r * from_step, count, some + r * kWidth);
  for (int64_t c = 0; c < count; c += kLanes)
    add_tile<kLanes, kRows, 1>(x, x_step, 1, weights + c, kWidth, some + c, kWidth, some + c,
                               kWidth, depth);
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(some + r * kWidth, count, y + r * y_step);
}

// Computes panels [first, last) of outputs.
template <int kBits, int64_t kLanes>
[[gnu::always_inline]] inline void multiply_panels(const WeightProduct& p, const WeightArguments& a,
                                                   int64_t first, int64_t last) {
  constexpr int64_t kWidth = kPanel * kLanes, kTileRows = kLanes == 16 ? 8 : 4;
  alignas(64) float weights[kBlockDepth * kWidth];
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = panel * kWidth, count = std::min(kWidth, p.out - begin);
    for (Block block = block_at(p, 0); block.inputs > 0; block = block_at(p, block.end)) {
      for (int64_t c = 0; c < count; c += kLanes)
        expand<kBits, kLanes>(p, a, (begin + c) / kLanes, block, weights + c, kWidth);
      const bool is_first = block.word == 0;
      const auto multiply = [&]<int64_t kRows>(int64_t m) __attribute__((always_inline)) {
        float* const y = a.y + m * p.out + begin;
        multiply_tile<kLanes, kRows>(a.x + m * p.in + block.input, p.in, weights,
                                     is_first ? a.bias + begin : y, is_first ? 0 : p.out, y, p.out,
                                     count, block.inputs);
      };
      int64_t m = 0;
      for (; m + kTileRows <= p.rows; m += kTileRows) multiply.template operator()<kTileRows>(m);
      for (; m + 4 <= p.rows; m += 4) multiply.template operator()<4>(m);
      for (; m < p.rows; ++m) multiply.template operator()<1>(m);
    }
  }
}

void add_groups(const WeightProduct& p, const float* x, float* sums) {
  const int64_t group = p.in / p.groups;
  for (int64_t i = 0; i < p.rows * p.groups; ++i) {
    float some[8] = {};
    for (int64_t k = 0; k < group; ++k) some[k % 8] += x[i * group + k];
    sums[i] =
        ((some[0] + some[1]) + (some[2] + some[3])) + ((some[4] + some[5]) + (some[6] + some[7]));
  }
}

bool has_nibbles(const StoredConstant& stored) { return stored.bits() <= 4; }

bool has_vectors() {
#if defined(__aarch64__)
  return true;
#else
  return may_use(Isa::kAvx2);
#endif
}

int bits_of(const ProgramTensor& w) { return has_nibbles(*w.stored) ? 4 : 8; }

// What the words have less than the stored values: nibbles 0 to 15 become signed.
int offset_of(const ProgramTensor& w) { return w.stored->values.dtype() == DType::kInt8 ? 0 : 8; }

}  // namespace

void WeightProduct::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                        const Parallel& parallel) const {
  const auto floats = [&](size_t i) { return reinterpret_cast<const float*>(from[i]); };
  float* const sums = reinterpret_cast<float*>(scratch);
  const std::byte* const scale = from[1] + words_of(*this) * 4;
  const WeightArguments a = {floats(0), reinterpret_cast<const int32_t*>(from[1]),
                             scale,     reinterpret_cast<const float*>(scale + scale_bytes(*this)),
                             floats(2), reinterpret_cast<float*>(to),
                             sums};
  const bool is_few = rows <= kFewRows;
  uint16_t* const rounded = reinterpret_cast<uint16_t*>(scratch);
  if (is_few && scratch_bytes() > 0) add_groups(*this, a.x, sums);
  if (!is_few && is_bfloat) round_to_bfloat(*this, a.x, rounded);
  const int64_t outputs = vector_floats() * (is_few ? 1 : kPanel);
  parallel(divide_up(out, outputs), in * outputs * (is_few ? 1 : rows / 4),
           [&](int64_t first, int64_t last) {
             if (!is_few && is_bfloat)
               return multiply_bfloat_panels(*this, a, rounded, first, last);
             run_in_vectors([&]<int64_t kLanes>() __attribute__((always_inline)) {
               if (is_few)
                 bits == 4 ? multiply_rows<4, kLanes>(*this, a, first, last)
                           : multiply_rows<8, kLanes>(*this, a, first, last);
               else
                 bits == 4 ? multiply_panels<4, kLanes>(*this, a, first, last)
                           : multiply_panels<8, kLanes>(*this, a, first, last);
             });
           });
}

int64_t WeightProduct::scratch_bytes() const {
  if (rows > kFewRows) return is_bfloat ? rows * in * static_cast<int64_t>(sizeof(uint16_t)) : 0;
  return has_zero_points ? rows * groups * static_cast<int64_t>(sizeof(float)) : 0;
}

int64_t WeightProduct::weights_bytes() const {
  return words_of(*this) * 4 + scale_bytes(*this) + (has_zero_points ? scales_of(*this) * 4 : 0);
}

bool has_weight_product(const ProgramTensor& w, int64_t rows) {
  if (rows < 1 || !has_vectors() || !w.stored || !w.stored->scale.defined() ||
      w.shape.size() != 2 || w.numel() == 0)
    return false;
  const DType dtype = w.stored->values.dtype();
  return w.shape[1] / w.stored->scale.shape()[1] >= kLeastGroup &&
         (dtype == DType::kInt8 || has_nibbles(*w.stored));
}

WeightProduct weight_product(const ProgramTensor& w, int64_t rows, bool wants_bfloat) {
  OCTET_ASSERT(has_weight_product(w, rows), "a weight that the kernel does not take");
  WeightProduct p = {.rows = rows,
                     .out = w.shape[0],
                     .in = w.shape[1],
                     .groups = w.stored->scale.shape()[1],
                     .bits = bits_of(w),
                     .has_bfloat_scales = w.stored->scale.dtype() == DType::kBFloat16};
  p.has_zero_points = has_zero_points(*w.stored, static_cast<float>(offset_of(w)));
  p.is_bfloat = wants_bfloat && has_bfloat_product(p);
  return p;
}

namespace {

void pack_words(const ProgramTensor& w, const WeightProduct& p, int32_t* to) {
  const Tensor values = w.stored->integers().contiguous();
  const int8_t* from = values.data<int8_t>();
  const int64_t lanes = vector_floats(), group = p.in / p.groups, per_word = 32 / p.bits;
  const uint32_t mask = p.bits == 4 ? 0xf : 0xff;
  const int offset = offset_of(w);
  for (int64_t n = 0; n < padded_out(p); n += lanes)
    for (int64_t g = 0; g < p.groups; ++g)
      for (int64_t k = 0; k < group; k += per_word, to += lanes)
        for (int64_t c = 0; c < std::min(lanes, p.out - n); ++c) {
          uint32_t word = 0;
          for (int64_t i = 0; i < std::min(per_word, group - k); ++i)
            word |=
                (static_cast<uint32_t>(from[(n + c) * p.in + g * group + k + i] - offset) & mask)
                << (p.bits * i);
          to[c] = static_cast<int32_t>(word);
        }
}

void pack_scales(const ProgramTensor& w, const WeightProduct& p, std::byte* scales, float* shifts) {
  const Tensor scale = w.stored->scales(), zero_point = w.stored->zero_points();
  const int64_t rows_per_scale = p.out / scale.shape()[0], lanes = vector_floats();
  const float offset = static_cast<float>(offset_of(w));
  for (int64_t n = 0; n < padded_out(p); n += lanes)
    for (int64_t g = 0; g < p.groups; ++g)
      for (int64_t c = 0; c < lanes; ++c) {
        const int64_t i = std::min(n + c, p.out - 1) / rows_per_scale * p.groups + g;
        const float zero = (zero_point.defined() ? zero_point.data<float>()[i] : 0) - offset;
        const float one = scale.data<float>()[i];
        const uint16_t half = float_to_bfloat(one);
        const size_t size = p.has_bfloat_scales ? sizeof(half) : sizeof(one);
        std::memcpy(scales, p.has_bfloat_scales ? static_cast<const void*>(&half) : &one, size);
        scales += size;
        if (p.has_zero_points) *shifts++ = scale.data<float>()[i] * zero;
      }
}

}  // namespace

Tensor pack_weights(const ProgramTensor& w) {
  const WeightProduct p = weight_product(w, 1);
  Tensor result = Tensor::zeros(DType::kInt32, {p.weights_bytes() / 4});
  int32_t* const words = result.data<int32_t>();
  std::byte* const scales = result.raw() + words_of(p) * 4;
  pack_words(w, p, words);
  pack_scales(w, p, scales, reinterpret_cast<float*>(scales + scale_bytes(p)));
  return result;
}

}  // namespace octet
