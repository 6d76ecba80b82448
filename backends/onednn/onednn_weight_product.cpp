// The loops: weights are packed in blocks of four outputs, so that these share the loads of x.
#include "backends/onednn/onednn_weight_product.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/onednn/onednn_isa.h"

namespace octet::onednn {
namespace {

constexpr int64_t kMostRows = 4;     // from about 6 rows on the float product is faster
constexpr int64_t kLeastGroup = 32;  // shorter groups spend their time on sums

constexpr int64_t kLanes = 16;   // elements of a row that are multiplied at once
constexpr int64_t kColumns = 4;  // outputs that share the loads of x

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

struct Sizes {
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 1;
  int bits = 8;
  bool is_signed = true;
  int64_t group() const { return in / groups; }
  int64_t packed_out() const { return round_up(out, kColumns); }
  int64_t packed_group() const { return round_up(group(), bits == 4 ? 2 * kLanes : kLanes); }  // elements
  int64_t packed_row() const { return packed_group() * groups * bits / 8; }                    // bytes of one output
};

// 8 bits: sixteen elements of each of the four outputs in turn. 0 where there are none.
void pack_bytes(const int8_t* from, const Sizes& sizes, uint8_t* to) {
  const int64_t group = sizes.group();
  for (int64_t n = 0; n < sizes.packed_out(); n += kColumns)
    for (int64_t g = 0; g < sizes.groups; ++g)
      for (int64_t k = 0; k < group; k += kLanes)
        for (int64_t c = 0; c < kColumns; ++c, to += kLanes)
          if (n + c < sizes.out) std::copy_n(from + (n + c) * sizes.in + g * group + k, std::min(kLanes, group - k), to);
}

// 4 bits: 32 elements of the four outputs are 16 words of 32 bits; lane i of output c has its elements i and 16 + i in nibbles 2c and 2c + 1.
void pack_nibbles(const int8_t* from, const Sizes& sizes, uint8_t* to) {
  const int64_t group = sizes.group();
  for (int64_t n = 0; n < sizes.packed_out(); n += kColumns)
    for (int64_t g = 0; g < sizes.groups; ++g)
      for (int64_t k = 0; k < group; k += 2 * kLanes, to += 4 * kLanes)
        for (int64_t c = 0; c < std::min(kColumns, sizes.out - n); ++c)
          for (int64_t i = 0; i < std::min(2 * kLanes, group - k); ++i) {
            const int nibble = (from[(n + c) * sizes.in + g * group + k + i] + (sizes.is_signed ? 8 : 0)) & 15;
            to[i % kLanes * 4 + c] = static_cast<uint8_t>(to[i % kLanes * 4 + c] | nibble << (i / kLanes * 4));
          }
}

struct Product {
  const float* x;
  const uint8_t* values;
  const float* scale;
  const float* zero_point;
  const float* bias;
  float* y;
};

#if defined(__x86_64__)
bool has_kernel() { return may_use(Isa::kAvx512); }

#define OCTET_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl")]]
#define OCTET_AVX512_INLINE [[gnu::target("avx512f,avx512bw,avx512vl"), gnu::always_inline]] inline

__mmask16 lanes_left(int64_t count) { return static_cast<__mmask16>(count >= kLanes ? 0xffff : (1 << std::max<int64_t>(count, 0)) - 1); }

// The sums of one group over x for four outputs: of x times weight less zero point, the latter by way of the sum of x.
template <int64_t kRows>
OCTET_AVX512_INLINE void sum_bytes(const float* x, const uint8_t* w, const float* zero_point, const Sizes& sizes, __m512 (&sum)[kColumns][kRows]) {
  const int64_t group = sizes.group();
  __m512 whole[kRows] = {};
  for (int64_t k = 0; k < group; k += kLanes, w += kColumns * kLanes) {
    const __mmask16 mask = lanes_left(group - k);
    __m512 row[kRows];
    for (int64_t m = 0; m < kRows; ++m) {
      row[m] = _mm512_maskz_loadu_ps(mask, x + m * sizes.in + k);
      whole[m] = _mm512_add_ps(whole[m], row[m]);
    }
    for (int64_t c = 0; c < kColumns; ++c) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + c * kLanes));
      const __m512 factor = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
      for (int64_t m = 0; m < kRows; ++m) sum[c][m] = _mm512_fmadd_ps(row[m], factor, sum[c][m]);
    }
  }
  for (int64_t c = 0; c < kColumns; ++c)
    for (int64_t m = 0; m < kRows; ++m) sum[c][m] = _mm512_fnmadd_ps(whole[m], _mm512_set1_ps(zero_point[c * sizes.groups]), sum[c][m]);
}

// The nibble at bit 4 * i of each lane, 0 to 15, as the float 1 + nibble / 16: the highest bits of a fraction.
template <int i>
OCTET_AVX512_INLINE __m512 nibble_fraction(__m512i word) {
  constexpr int kPlace = 19;  // of the nibble in a fraction of 23 bits
  const __m512i moved = 4 * i < kPlace ? _mm512_slli_epi32(word, kPlace - 4 * i) : _mm512_srli_epi32(word, 4 * i - kPlace);
  constexpr int kMaskThenOr = 0xea;  // (a and b) or c
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(moved, _mm512_set1_epi32(15 << kPlace), _mm512_set1_epi32(0x3f800000), kMaskThenOr));
}

template <int c, int64_t kRows>
OCTET_AVX512_INLINE void add_column(__m512i word, const __m512 (&low)[kRows], const __m512 (&high)[kRows], __m512 (&sum)[kColumns][kRows],
                                    __m512 (&other)[kColumns][kRows]) {
  const __m512 first = nibble_fraction<2 * c>(word), second = nibble_fraction<2 * c + 1>(word);
  for (int64_t m = 0; m < kRows; ++m) {
    sum[c][m] = _mm512_fmadd_ps(low[m], first, sum[c][m]);
    if constexpr (kRows == 1) {  // two sums, so that one does not wait for the other
      other[c][m] = _mm512_fmadd_ps(high[m], second, other[c][m]);
    } else {
      sum[c][m] = _mm512_fmadd_ps(high[m], second, sum[c][m]);
    }
  }
}

// The same from nibbles q, as sums of x * (1 + q / 16).
template <int64_t kRows>
OCTET_AVX512_INLINE void sum_nibbles(const float* x, const uint8_t* w, const float* zero_point, const Sizes& sizes, __m512 (&sum)[kColumns][kRows]) {
  const int64_t group = sizes.group();
  __m512 whole[kRows] = {};
  __m512 other[kColumns][kRows] = {};
  for (int64_t k = 0; k < group; k += 2 * kLanes, w += kColumns * kLanes) {
    __m512 low[kRows], high[kRows];
    for (int64_t m = 0; m < kRows; ++m) {
      low[m] = _mm512_maskz_loadu_ps(lanes_left(group - k), x + m * sizes.in + k);
      high[m] = _mm512_maskz_loadu_ps(lanes_left(group - k - kLanes), x + m * sizes.in + k + kLanes);
      whole[m] = _mm512_add_ps(whole[m], _mm512_add_ps(low[m], high[m]));
    }
    const __m512i word = _mm512_loadu_si512(w);
    add_column<0>(word, low, high, sum, other);
    add_column<1>(word, low, high, sum, other);
    add_column<2>(word, low, high, sum, other);
    add_column<3>(word, low, high, sum, other);
  }
  const float shift = sizes.is_signed ? 24.0f : 16.0f;  // signed nibbles are stored 8 higher
  for (int64_t c = 0; c < kColumns; ++c)
    for (int64_t m = 0; m < kRows; ++m) {
      const __m512 both = kRows == 1 ? _mm512_add_ps(sum[c][m], other[c][m]) : sum[c][m];
      sum[c][m] = _mm512_fmsub_ps(both, _mm512_set1_ps(16.0f), _mm512_mul_ps(whole[m], _mm512_set1_ps(zero_point[c * sizes.groups] + shift)));
    }
}

// Columns [4 * first, 4 * last) of y[m, n].
template <int64_t kRows, int kBits>
OCTET_AVX512 void multiply_columns(const Product& p, const Sizes& sizes, int64_t first, int64_t last) {
  const int64_t group = sizes.group(), group_bytes = kColumns * sizes.packed_group() * kBits / 8;
  const uint8_t* w = p.values + first * kColumns * sizes.packed_row();
  for (int64_t n = first * kColumns; n < last * kColumns; n += kColumns) {
    __m512 total[kColumns][kRows] = {};
    for (int64_t g = 0; g < sizes.groups; ++g, w += group_bytes) {
      const int64_t parameter = n * sizes.groups + g;
      __m512 sum[kColumns][kRows] = {};
      if constexpr (kBits == 4) {
        sum_nibbles<kRows>(p.x + g * group, w, p.zero_point + parameter, sizes, sum);
      } else {
        sum_bytes<kRows>(p.x + g * group, w, p.zero_point + parameter, sizes, sum);
      }
      for (int64_t c = 0; c < kColumns; ++c) {
        const __m512 scale = _mm512_set1_ps(p.scale[parameter + c * sizes.groups]);
        for (int64_t m = 0; m < kRows; ++m) total[c][m] = _mm512_fmadd_ps(sum[c][m], scale, total[c][m]);
      }
    }
    for (int64_t c = 0; c < std::min(kColumns, sizes.out - n); ++c)
      for (int64_t m = 0; m < kRows; ++m) p.y[m * sizes.out + n + c] = _mm512_reduce_add_ps(total[c][m]) + p.bias[n + c];
  }
}
#undef OCTET_AVX512
#undef OCTET_AVX512_INLINE
#else
bool has_kernel() { return false; }

template <int64_t kRows, int kBits>
void multiply_columns(const Product&, const Sizes&, int64_t, int64_t) {}
#endif

template <int64_t kRows, int kBits>
Loop product_loop(const Sizes& sizes) {
  return [sizes](std::byte* const* arguments) {
    const Product p = {reinterpret_cast<const float*>(arguments[0]), reinterpret_cast<const uint8_t*>(arguments[1]),
                       reinterpret_cast<const float*>(arguments[2]), reinterpret_cast<const float*>(arguments[3]),
                       reinterpret_cast<const float*>(arguments[4]), reinterpret_cast<float*>(arguments[5])};
    for_parts(sizes.packed_out() / kColumns, sizes.in * kColumns,
              [&](int64_t first, int64_t last) { multiply_columns<kRows, kBits>(p, sizes, first, last); });
  };
}

bool has_nibbles(const StoredConstant& stored) { return size_of(stored.values.dtype()) == 1 && stored.fits_nibbles(); }

}  // namespace

bool has_weight_product(const ProgramTensor& w, int64_t rows) {
  if (!has_kernel() || rows < 1 || rows > kMostRows || !w.stored || !w.stored->scale.defined() || w.shape.size() != 2 || w.numel() == 0) return false;
  const DType dtype = w.stored->values.dtype();
  return w.shape[1] / w.stored->scale.shape()[1] >= kLeastGroup && (dtype == DType::kInt8 || has_nibbles(*w.stored));
}

std::optional<WeightProduct> find_weight_product(SegmentBuilder& builder, const ProgramTensor& w, int64_t rows) {
  if (!has_weight_product(w, rows)) return std::nullopt;
  const bool is_nibbles = has_nibbles(*w.stored);
  const Tensor scale = w.stored->scale.contiguous();
  const Tensor zero_point = w.stored->zero_point.defined() ? w.stored->zero_point.contiguous() : Tensor();
  const int64_t blocks = scale.shape()[0], groups = scale.shape()[1];
  const Sizes sizes = {w.shape[0], w.shape[1], groups, is_nibbles ? 4 : 8, w.stored->values.dtype() == DType::kInt8};
  std::vector<float> scales, zero_points;
  for (int64_t row = 0; row < sizes.packed_out(); ++row) {
    const int64_t n = std::min(row, sizes.out - 1);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t i = n / (sizes.out / blocks) * groups + g;
      scales.push_back(scale.data<float>()[i]);
      zero_points.push_back(zero_point.defined() ? zero_point.data<float>()[i] : 0.0f);
    }
  }
  const Tensor values = w.stored->values.contiguous();
  const Dims packed_shape = {sizes.packed_out(), sizes.packed_row()};
  const Tensor packed = Tensor::zeros(DType::kUInt8, packed_shape);
  (is_nibbles ? pack_nibbles : pack_bytes)(values.data<int8_t>(), sizes, packed.data<uint8_t>());
  std::shared_ptr<void> data(std::make_shared<Tensor>(packed), packed.raw());
  return WeightProduct{sizes.out,
                       sizes.in,
                       groups,
                       rows,
                       sizes.bits,
                       sizes.is_signed,
                       builder.add_constant(packed_shape, {ElementType::u8, 1, 0}, row_major(packed_shape), data),
                       builder.add_floats(scales),
                       builder.add_floats(zero_points)};
}

void add_weight_product(SegmentBuilder& builder, const WeightProduct& product, Place x, Place bias, Place y) {
  constexpr Loop (*kLoops[2][kMostRows])(const Sizes&) = {
      {product_loop<1, 8>, product_loop<2, 8>, product_loop<3, 8>, product_loop<4, 8>},
      {product_loop<1, 4>, product_loop<2, 4>, product_loop<3, 4>, product_loop<4, 4>}
  };
  const Sizes sizes = {product.out, product.in, product.groups, product.bits, product.is_signed};
  builder.add_loop("linear", kLoops[product.bits == 4][product.rows - 1](sizes),
                   {x, product.values.place, product.scale.place, product.zero_point.place, bias, y});
}

}  // namespace octet::onednn
