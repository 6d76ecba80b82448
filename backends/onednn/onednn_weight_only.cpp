// linear on float activations of few rows, whose weights are stored as integers: one own loop reads the integers themselves. Such a product is
// bound by how fast the weights come from memory, and there are four times fewer bytes of them than of floats. With more rows the arithmetic
// decides, and oneDNN's float product on expanded weights is faster.
#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backends/onednn/onednn_isa.h"
#include "backends/onednn/onednn_ops.h"

namespace octet::onednn {
namespace {

constexpr int64_t kMostRows = 4;      // from about 6 rows on the float product is faster
constexpr int64_t kLeastGroup = 32;  // shorter groups spend their time on sums

constexpr int64_t kLanes = 16;   // elements of a row that are multiplied at once
constexpr int64_t kColumns = 4;  // outputs that share the loads of x

struct Sizes {
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 1;  // in a row of `in`
  int64_t packed_out() const { return (out + kColumns - 1) / kColumns * kColumns; }
  int64_t packed_in() const { return (in / groups + kLanes - 1) / kLanes * kLanes * groups; }
};

// real = scale[n, g] * (values[n, k] - zero_point[n, g]) with g = k / (in / groups); n runs to packed_out.
struct GroupedWeights {
  Tensor values;  // int8 [out, in]
  std::vector<float> scale;
  std::vector<float> zero_point;
  Sizes sizes;
};

std::optional<GroupedWeights> find_grouped_weights(const ProgramTensor& w) {
  if (!w.stored || w.stored->values.dtype() != DType::kInt8 || !w.stored->scale.defined() || w.shape.size() != 2) return std::nullopt;
  const Tensor scale = w.stored->scale.contiguous();
  const Tensor zero_point = w.stored->zero_point.defined() ? w.stored->zero_point.contiguous() : Tensor();
  const int64_t blocks = scale.shape()[0], groups = scale.shape()[1];
  if (w.shape[1] / groups < kLeastGroup) return std::nullopt;
  GroupedWeights weights{w.stored->values.contiguous(), {}, {}, {w.shape[0], w.shape[1], groups}};
  for (int64_t row = 0; row < weights.sizes.packed_out(); ++row) {
    const int64_t n = std::min(row, weights.sizes.out - 1);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t i = n / (weights.sizes.out / blocks) * groups + g;
      weights.scale.push_back(scale.data<float>()[i]);
      weights.zero_point.push_back(zero_point.defined() ? zero_point.data<float>()[i] : 0.0f);
    }
  }
  return weights;
}

// The values as one stream: four rows side by side, sixteen elements of each in turn; 0 where there are none.
std::shared_ptr<void> pack(const GroupedWeights& weights) {
  const Sizes& sizes = weights.sizes;
  const int64_t size = sizes.in / sizes.groups;
  Tensor packed = Tensor::zeros(DType::kInt8, {sizes.packed_out(), sizes.packed_in()});
  const int8_t* from = weights.values.data<int8_t>();
  int8_t* to = packed.data<int8_t>();
  for (int64_t n = 0; n < sizes.packed_out(); n += kColumns)
    for (int64_t g = 0; g < sizes.groups; ++g)
      for (int64_t k = 0; k < size; k += kLanes)
        for (int64_t c = 0; c < kColumns; ++c, to += kLanes)
          if (n + c < sizes.out) std::copy_n(from + (n + c) * sizes.in + g * size + k, std::min(kLanes, size - k), to);
  return std::shared_ptr<void>(std::make_shared<Tensor>(packed), packed.raw());
}

struct Product {
  const float* x;
  const int8_t* values;
  const float* scale;
  const float* zero_point;
  const float* bias;
  float* y;
};

#if defined(__x86_64__)
bool has_kernel() { return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"); }

// Columns [4 * first, 4 * last) of y[m, n].
template <int64_t kRows>
[[gnu::target("avx512f,avx512bw,avx512vl")]] void multiply_columns(const Product& p, const Sizes& sizes, int64_t first, int64_t last) {
  const int64_t size = sizes.in / sizes.groups;
  const __mmask16 rest = static_cast<__mmask16>((1 << size % kLanes) - 1);
  const int8_t* w = p.values + first * kColumns * sizes.packed_in();
  for (int64_t n = first * kColumns; n < last * kColumns; n += kColumns) {
    __m512 total[kColumns][kRows] = {};
    for (int64_t g = 0; g < sizes.groups; ++g) {
      const int64_t parameter = n * sizes.groups + g;
      __m512 sum[kColumns][kRows] = {};
      __m512 zero_point[kColumns];
      for (int64_t c = 0; c < kColumns; ++c) zero_point[c] = _mm512_set1_ps(p.zero_point[parameter + c * sizes.groups]);
      for (int64_t k = 0; k < size; k += kLanes, w += kColumns * kLanes) {
        const __mmask16 mask = k + kLanes <= size ? static_cast<__mmask16>(0xffff) : rest;
        __m512 x[kRows];
        for (int64_t m = 0; m < kRows; ++m) x[m] = _mm512_maskz_loadu_ps(mask, p.x + m * sizes.in + g * size + k);
        for (int64_t c = 0; c < kColumns; ++c) {
          const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w + c * kLanes));
          const __m512 factor = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), zero_point[c]);
          for (int64_t m = 0; m < kRows; ++m) sum[c][m] = _mm512_fmadd_ps(x[m], factor, sum[c][m]);
        }
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
#else
bool has_kernel() { return false; }

template <int64_t kRows>
void multiply_columns(const Product&, const Sizes&, int64_t, int64_t) {}
#endif

template <int64_t kRows>
Loop product_loop(const Sizes& sizes) {
  return [sizes](std::byte* const* arguments) {
    const Product p = {reinterpret_cast<const float*>(arguments[0]), reinterpret_cast<const int8_t*>(arguments[1]),
                       reinterpret_cast<const float*>(arguments[2]), reinterpret_cast<const float*>(arguments[3]),
                       reinterpret_cast<const float*>(arguments[4]), reinterpret_cast<float*>(arguments[5])};
    for_parts(sizes.packed_out() / kColumns, sizes.in * kColumns, [&](int64_t first, int64_t last) { multiply_columns<kRows>(p, sizes, first, last); });
  };
}

}  // namespace

bool emit_weight_only_linear(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const int64_t rows = xt.numel() / xt.shape.back();
  if (!has_kernel() || rows > kMostRows || clamp_of(op).is_needed() || yt.dtype != DType::kFloat32) return false;
  const std::optional<GroupedWeights> weights = find_grouped_weights(builder.tensor(op.inputs[1]));
  if (!weights) return false;
  const Stored x = builder.to_real(op.inputs[0], row_major(xt.shape));
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] >= 0;
  const std::vector<float> bias = has_bias ? builder.real_values(op.inputs[2]) : std::vector<float>(static_cast<size_t>(weights->sizes.out), 0.0f);
  const Dims packed = {weights->sizes.packed_out(), weights->sizes.packed_in()};
  const Stored values = builder.add_constant(packed, {ElementType::s8, 1, 0}, row_major(packed), pack(*weights));
  constexpr Loop (*kLoops[])(const Sizes&) = {product_loop<1>, product_loop<2>, product_loop<3>, product_loop<4>};
  builder.add_loop("linear", kLoops[rows - 1](weights->sizes),
                   {x.place, values.place, builder.add_floats(weights->scale).place, builder.add_floats(weights->zero_point).place,
                    builder.add_floats(bias).place, y.place});
  builder.define(op.outputs[0], y);
  return true;
}

}  // namespace octet::onednn
