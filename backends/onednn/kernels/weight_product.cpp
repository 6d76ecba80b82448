// Packs weights in blocks of four outputs, which share the loads of x, and runs the loops.
#include "backends/onednn/kernels/weight_product.h"

#include <algorithm>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/kernels/isa.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

// with AVX-512, the float product is faster from about 6 rows on
constexpr int64_t kMostRows = 4;
constexpr int64_t kLeastGroup = 32;  // shorter groups spend too much time on sums

constexpr int64_t kLanes = 16;   // elements of a row that are multiplied together
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
  // elements
  int64_t packed_group() const { return round_up(group(), bits == 4 ? 2 * kLanes : kLanes); }
  // bytes of one output
  int64_t packed_row() const { return packed_group() * groups * bits / 8; }
};

// 8 bits: sixteen elements of each of the four outputs in turn, padded with 0.
void pack_bytes(const int8_t* from, const Sizes& sizes, uint8_t* to) {
  const int64_t group = sizes.group();
  for (int64_t n = 0; n < sizes.packed_out(); n += kColumns)
    for (int64_t g = 0; g < sizes.groups; ++g)
      for (int64_t k = 0; k < group; k += kLanes)
        for (int64_t c = 0; c < kColumns; ++c, to += kLanes)
          if (n + c < sizes.out)
            std::copy_n(from + (n + c) * sizes.in + g * group + k, std::min(kLanes, group - k), to);
}

// 4 bits: 32 elements of the four outputs are 16 words of 32 bits; lane i of output c has elements
// i and 16 + i in nibbles 2c and 2c + 1.
void pack_nibbles(const int8_t* from, const Sizes& sizes, uint8_t* to) {
  const int64_t group = sizes.group();
  for (int64_t n = 0; n < sizes.packed_out(); n += kColumns)
    for (int64_t g = 0; g < sizes.groups; ++g)
      for (int64_t k = 0; k < group; k += 2 * kLanes, to += 4 * kLanes)
        for (int64_t c = 0; c < std::min(kColumns, sizes.out - n); ++c)
          for (int64_t i = 0; i < std::min(2 * kLanes, group - k); ++i) {
            const int nibble =
                (from[(n + c) * sizes.in + g * group + k + i] + (sizes.is_signed ? 8 : 0)) & 15;
            to[i % kLanes * 4 + c] =
                static_cast<uint8_t>(to[i % kLanes * 4 + c] | nibble << (i / kLanes * 4));
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
#define WEIGHT_PRODUCT product_avx512
#define WEIGHT_PRODUCT_WIDE 1
#define WEIGHT_PRODUCT_TARGET "avx512f,avx512bw,avx512dq,avx512vl" OCTET_WIDEST
#include "backends/onednn/kernels/weight_product.inc"
#undef WEIGHT_PRODUCT
#undef WEIGHT_PRODUCT_TARGET
#undef WEIGHT_PRODUCT_WIDE
#define WEIGHT_PRODUCT product_avx2
#define WEIGHT_PRODUCT_WIDE 0
#define WEIGHT_PRODUCT_TARGET "avx2,fma"
#include "backends/onednn/kernels/weight_product.inc"
#undef WEIGHT_PRODUCT
#undef WEIGHT_PRODUCT_TARGET
#undef WEIGHT_PRODUCT_WIDE

// The largest number of rows; with more, the float product is faster. With AVX2 fewer sums fit
// registers.
int64_t most_rows() { return may_use(Isa::kAvx512) ? kMostRows : may_use(Isa::kAvx2) ? 2 : 0; }

template <int64_t kRows, int kBits>
void multiply_columns(const Product& p, const Sizes& sizes, int64_t first, int64_t last) {
  (may_use(Isa::kAvx512) ? product_avx512::multiply_columns<kRows, kBits>
                         : product_avx2::multiply_columns<kRows, kBits>)(p, sizes, first, last);
}
#else
int64_t most_rows() { return 0; }

template <int64_t kRows, int kBits>
void multiply_columns(const Product&, const Sizes&, int64_t, int64_t) {}
#endif

template <int64_t kRows, int kBits>
Loop product_loop(const Sizes& sizes) {
  return [sizes](std::byte* const* arguments) {
    const Product p = {reinterpret_cast<const float*>(arguments[0]),
                       reinterpret_cast<const uint8_t*>(arguments[1]),
                       reinterpret_cast<const float*>(arguments[2]),
                       reinterpret_cast<const float*>(arguments[3]),
                       reinterpret_cast<const float*>(arguments[4]),
                       reinterpret_cast<float*>(arguments[5])};
    for_parts(sizes.packed_out() / kColumns, sizes.in * kColumns, [&](int64_t first, int64_t last) {
      multiply_columns<kRows, kBits>(p, sizes, first, last);
    });
  };
}

bool has_nibbles(const StoredConstant& stored) {
  return size_of(stored.values.dtype()) == 1 && stored.fits_nibbles();
}

}  // namespace

bool has_weight_product(const ProgramTensor& w, int64_t rows) {
  if (rows < 1 || rows > most_rows() || !w.stored || !w.stored->scale.defined() ||
      w.shape.size() != 2 || w.numel() == 0)
    return false;
  const DType dtype = w.stored->values.dtype();
  return w.shape[1] / w.stored->scale.shape()[1] >= kLeastGroup &&
         (dtype == DType::kInt8 || has_nibbles(*w.stored));
}

PackedProduct pack_weight_product(const ProgramTensor& w, int64_t rows) {
  OCTET_ASSERT(has_weight_product(w, rows), "a weight that the kernel does not take");
  const bool is_nibbles = has_nibbles(*w.stored);
  const Tensor scale = w.stored->scale.contiguous();
  const Tensor zero_point =
      w.stored->zero_point.defined() ? w.stored->zero_point.contiguous() : Tensor();
  const int64_t blocks = scale.shape()[0], groups = scale.shape()[1];
  const Sizes sizes = {w.shape[0], w.shape[1], groups, is_nibbles ? 4 : 8,
                       w.stored->values.dtype() == DType::kInt8};
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
  const Tensor packed = Tensor::zeros(DType::kUInt8, {sizes.packed_out(), sizes.packed_row()});
  (is_nibbles ? pack_nibbles : pack_bytes)(values.data<int8_t>(), sizes, packed.data<uint8_t>());
  return {{sizes.out, sizes.in, groups, rows, sizes.bits, sizes.is_signed},
          packed,
          std::move(scales),
          std::move(zero_points)};
}

Loop weight_product_loop(const WeightProduct& product) {
  constexpr Loop (*kLoops[2][kMostRows])(const Sizes&) = {
      {product_loop<1, 8>, product_loop<2, 8>, product_loop<3, 8>, product_loop<4, 8>},
      {product_loop<1, 4>, product_loop<2, 4>, product_loop<3, 4>, product_loop<4, 4>}};
  const Sizes sizes = {product.out, product.in, product.groups, product.bits, product.is_signed};
  return kLoops[product.bits == 4][product.rows - 1](sizes);
}

}  // namespace octet::onednn
