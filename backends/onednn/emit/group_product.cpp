// Emits a linear whose activations are quantized at run time and whose integer weights have scales
// per group within a row: a custom loop of u8 x s8 products, which oneDNN lacks. The sum of each
// group is converted to float once it is complete.
//
//   y[m, n] = scale[m] * (sum over groups g of w_scale[n, g] * sum[m, n, g]
//                         - zero_point[m] * shift[n]) + bias[n]
//   shift[n] = sum over groups g of w_scale[n, g] * (sum of the weights of the group)
#include <algorithm>
#include <limits>

#include "backends/kernels/dynamic_rows.h"
#include "backends/kernels/isa.h"
#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/dynamic_rows.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/byte_conv.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/kernels/vnni.h"

namespace octet::onednn {
namespace {

constexpr int64_t kVectors = 3;  // of kLanes outputs, processed together
constexpr int64_t kBlock = kLanes * kVectors;
constexpr int64_t kRows = 4;  // processed together
constexpr int64_t kLeastGroup = 16;

struct Sizes {
  int64_t out = 0;
  int64_t in = 0;
  int64_t groups = 1;
  int64_t rows_per_scale = 1;  // of x
  float low, high;             // of y
  int64_t group() const { return in / groups; }
  int64_t blocks() const { return (out + kBlock - 1) / kBlock; }
};

// Whether the weights are int8 [out, in] with scales [blocks of rows, groups], no zero points, and
// groups of a multiple of 4, up to kMostRowWidth.
bool has_plain_groups(const ProgramTensor& w) {
  if (!w.stored || w.stored->values.dtype() != DType::kInt8 || !w.stored->scale.defined() ||
      w.shape.size() != 2 || w.numel() == 0)
    return false;
  const std::vector<int64_t> scales = w.stored->scale.shape();
  if (scales.size() != 2) return false;
  const int64_t group = w.shape[1] / scales[1];
  if (group < kLeastGroup || group > kMostRowWidth || group % 4 != 0) return false;
  if (!w.stored->zero_point.defined()) return true;
  const Tensor zero_point = w.stored->zero_points();
  return std::all_of(zero_point.data<float>(), zero_point.data<float>() + zero_point.numel(),
                     [](float z) { return z == 0; });
}

struct Weights {
  Tensor values;             // by blocks of 48 outputs, then by 4 inputs: 48 x 4 bytes
  std::vector<float> scale;  // by blocks of 48 outputs, then by groups: 48
  std::vector<float> shift;  // [out rounded up]
};

Weights pack(const ProgramTensor& w, const Sizes& sizes) {
  const Tensor values = w.stored->integers().contiguous(), scales = w.stored->scales();
  const int64_t group = sizes.group(), outputs_per_scale = sizes.out / scales.shape()[0],
                padded = sizes.blocks() * kBlock;
  Weights packed{Tensor::zeros(DType::kInt8, {padded, sizes.in}),
                 std::vector<float>(static_cast<size_t>(padded * sizes.groups), 0.0f),
                 std::vector<float>(static_cast<size_t>(padded), 0.0f)};
  for (int64_t n = 0; n < sizes.out; ++n) {
    const int8_t* from = values.data<int8_t>() + n * sizes.in;
    int8_t* to = packed.values.data<int8_t>() + n / kBlock * kBlock * sizes.in + n % kBlock * 4;
    for (int64_t k = 0; k < sizes.in; ++k) to[k / 4 * kBlock * 4 + k % 4] = from[k];
    for (int64_t g = 0; g < sizes.groups; ++g) {
      const float scale = scales.data<float>()[n / outputs_per_scale * sizes.groups + g];
      int32_t sum = 0;
      for (int64_t k = g * group; k < (g + 1) * group; ++k) sum += from[k];
      packed.scale[static_cast<size_t>((n / kBlock * sizes.groups + g) * kBlock + n % kBlock)] =
          scale;
      packed.shift[static_cast<size_t>(n)] += scale * static_cast<float>(sum);
    }
  }
  return packed;
}

struct Operands {
  const uint8_t* x;
  const float* x_scale;
  const int32_t* x_zero_point;
  const int8_t* w;
  const float* w_scale;
  const float* shift;
  const float* bias;
  float* y;
};

#if defined(__x86_64__)
// Computes rows [m, m + R) of one block of outputs.
template <int64_t R>
OCTET_VNNI inline void multiply_block(const Operands& o, const Sizes& s, int64_t m, int64_t block) {
  const int8_t* w = o.w + block * kBlock * s.in;
  const float* w_scale = o.w_scale + block * s.groups * kBlock;
  const int64_t group = s.group();  // involves a slow division
  __m512 total[R][kVectors];
  for (int64_t r = 0; r < R; ++r)
    for (int64_t v = 0; v < kVectors; ++v) total[r][v] = _mm512_setzero_ps();
  for (int64_t g = 0; g < s.groups; ++g, w_scale += kBlock) {
    __m512i sum[R][kVectors];
    for (int64_t r = 0; r < R; ++r)
      for (int64_t v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_si512();
    for (int64_t k = g * group; k < (g + 1) * group; k += 4, w += kBlock * 4) {
      __m512i weights[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_si512(w + v * kLanes * 4);
      for (int64_t r = 0; r < R; ++r) {
        int32_t four;
        __builtin_memcpy(&four, o.x + (m + r) * s.in + k, 4);
        const __m512i x = _mm512_set1_epi32(four);
        for (int64_t v = 0; v < kVectors; ++v)
          sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], x, weights[v]);
      }
    }
    for (int64_t v = 0; v < kVectors; ++v) {
      const __m512 scale = _mm512_loadu_ps(w_scale + v * kLanes);
      for (int64_t r = 0; r < R; ++r)
        total[r][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][v]), scale, total[r][v]);
    }
  }
  for (int64_t v = 0; v < kVectors; ++v) {
    const int64_t n = block * kBlock + v * kLanes, left = s.out - n;
    if (left <= 0) break;
    const __mmask16 mask = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1 << left) - 1);
    const __m512 shift = _mm512_loadu_ps(o.shift + n),
                 bias = _mm512_maskz_loadu_ps(mask, o.bias + n);
    for (int64_t r = 0; r < R; ++r) {
      const int64_t entry = (m + r) / s.rows_per_scale;
      const __m512 centered = _mm512_fnmadd_ps(
          _mm512_set1_ps(static_cast<float>(o.x_zero_point[entry])), shift, total[r][v]);
      __m512 y = _mm512_fmadd_ps(centered, _mm512_set1_ps(o.x_scale[entry]), bias);
      y = _mm512_min_ps(_mm512_max_ps(y, _mm512_set1_ps(s.low)), _mm512_set1_ps(s.high));
      _mm512_mask_storeu_ps(o.y + (m + r) * s.out + n, mask, y);
    }
  }
}

OCTET_VNNI void multiply(const Operands& o, const Sizes& s, int64_t rows, int64_t block) {
  int64_t m = 0;
  for (; m + kRows <= rows; m += kRows) multiply_block<kRows>(o, s, m, block);
  switch (rows - m) {
    case 1: return multiply_block<1>(o, s, m, block);
    case 2: return multiply_block<2>(o, s, m, block);
    case 3: return multiply_block<3>(o, s, m, block);
    default: return;
  }
}
#else
void multiply(const Operands&, const Sizes&, int64_t, int64_t) {}
#endif

// Arguments: as Operands.
Loop product_loop(const Sizes& sizes, int64_t rows) {
  return [=](std::byte* const* arguments) {
    const auto floats = [&](size_t i) { return reinterpret_cast<float*>(arguments[i]); };
    const Operands o = {reinterpret_cast<const uint8_t*>(arguments[0]),
                        floats(1),
                        reinterpret_cast<const int32_t*>(arguments[2]),
                        reinterpret_cast<const int8_t*>(arguments[3]),
                        floats(4),
                        floats(5),
                        floats(6),
                        floats(7)};
    for_parts(sizes.blocks(), rows * sizes.in, [&](int64_t first, int64_t last) {
      for (int64_t block = first; block < last; ++block) multiply(o, sizes, rows, block);
    });
  };
}

// ---- CPUs without VNNI: byte tiles compute the same sums group by group, then one loop applies
// the terms of each row

struct GroupRowTerms {
  float scale, zero_point, low, high;
};

[[gnu::always_inline]] inline void finish_loop(float* y, const float* shift, const float* bias,
                                               int64_t count, GroupRowTerms row) {
  for (int64_t i = 0; i < count; ++i) {
    float v = __builtin_fmaf(__builtin_fmaf(-row.zero_point, shift[i], y[i]), row.scale, bias[i]);
    v = v > row.low ? v : row.low;
    y[i] = v < row.high ? v : row.high;
  }
}

// Works in place on y [rows, out]. Arguments: y, x's scales and zero points, shift, bias.
void add_finish_rows(SegmentBuilder& builder, const Sizes& sizes, const DynamicRows& x, Place y,
                     Place shift, Place bias) {
  const int64_t out = sizes.out, rows_per_scale = sizes.rows_per_scale;
  const float low = sizes.low, high = sizes.high;
  builder.add_loop("scale rows",
                   [=, rows = x.rows](std::byte* const* arguments) {
                     for_parts(rows, out, [&](int64_t first, int64_t last) {
                       for (int64_t m = first; m < last; ++m) {
                         const GroupRowTerms row = {
                             reinterpret_cast<const float*>(arguments[1])[m / rows_per_scale],
                             static_cast<float>(reinterpret_cast<const int32_t*>(
                                 arguments[2])[m / rows_per_scale]),
                             low, high};
                         float* to = reinterpret_cast<float*>(arguments[0]) + m * out;
                         const float* shifts = reinterpret_cast<const float*>(arguments[3]);
                         const float* biases = reinterpret_cast<const float*>(arguments[4]);
                         run_vectorized([&]() __attribute__((always_inline)) {
                           finish_loop(to, shifts, biases, out, row);
                         });
                       }
                     });
                   },
                   {y, x.scale, x.zero_point, shift, bias});
}

// Returns w_scale as [groups, out], and shift.
std::pair<std::vector<float>, std::vector<float>> group_terms(const ProgramTensor& w,
                                                              const Sizes& sizes) {
  const Tensor values = w.stored->integers().contiguous(), scales = w.stored->scales();
  const int64_t outputs_per_scale = sizes.out / scales.shape()[0], group = sizes.group();
  std::vector<float> scale(static_cast<size_t>(sizes.groups * sizes.out)),
      shift(static_cast<size_t>(sizes.out), 0.0f);
  for (int64_t n = 0; n < sizes.out; ++n)
    for (int64_t g = 0; g < sizes.groups; ++g) {
      const float one = scales.data<float>()[n / outputs_per_scale * sizes.groups + g];
      const int8_t* from = values.data<int8_t>() + n * sizes.in + g * group;
      int32_t sum = 0;
      for (int64_t k = 0; k < group; ++k) sum += from[k];
      scale[static_cast<size_t>(g * sizes.out + n)] = one;
      shift[static_cast<size_t>(n)] += one * static_cast<float>(sum);
    }
  return {std::move(scale), std::move(shift)};
}

void emit_by_byte_tiles(SegmentBuilder& builder, const ProgramOp& op, const Sizes& sizes,
                        const DynamicRows& x, ByteConvShape shape, const std::vector<float>& bias) {
  const ProgramTensor& w = builder.tensor(op.inputs[1]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  shape.segments = sizes.groups;
  const auto [scale, shift] = group_terms(w, sizes);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ByteConvOutput output{TileOutput::kReals, {}, -kInfinity, kInfinity};
  output.scales.scale = scale;
  output.scales.bias.assign(static_cast<size_t>(sizes.out), 0.0f);
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  add_byte_conv(builder, "linear", shape, w.stored->integers(), output, {}, x.values, y.place,
                nullptr);
  add_finish_rows(builder, sizes, x, y.place, builder.add_floats(shift).place,
                  builder.add_floats(bias).place);
  builder.define(op.outputs[0], y);
}

ByteConvShape shape_of(const ProgramTensor& w, const ProgramTensor& y) {
  return linear_shape(y.numel() / w.shape[0], w.shape[1], w.shape[0]);
}

// Whether a kernel of this CPU multiplies the integers of weights with a scale per group.
bool has_integer_groups(const ProgramTensor& w, const ProgramTensor& y) {
  return y.dtype == DType::kFloat32 && has_plain_groups(w) &&
         (has_vnni() || has_byte_conv(shape_of(w, y)));
}

}  // namespace

bool has_integer_rows(const ProgramTensor& w, const ProgramTensor& y) {
  if (find_row_scales(w)) return y.dtype == DType::kFloat32 && w.shape.back() <= kMostRowWidth;
  return has_integer_groups(w, y);
}

bool emit_dynamic_group_linear(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& w = builder.tensor(op.inputs[1]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const DynamicRows* x = builder.find_dynamic(op.inputs[0]);
  if (x == nullptr || !has_integer_groups(w, yt)) return false;
  const ByteConvShape shape = shape_of(w, yt);
  const float infinity = std::numeric_limits<float>::infinity();
  const Clamp clamp = clamp_of(op);
  const Sizes sizes = {w.shape[0],
                       w.shape[1],
                       w.stored->scale.shape()[1],
                       x->rows_per_block,
                       clamp.min ? static_cast<float>(*clamp.min) : -infinity,
                       clamp.max ? static_cast<float>(*clamp.max) : infinity};
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] >= 0;
  const std::vector<float> bias = has_bias
                                      ? real_values(builder.tensor(op.inputs[2]))
                                      : std::vector<float>(static_cast<size_t>(sizes.out), 0.0f);
  if (has_byte_conv(shape)) {
    emit_by_byte_tiles(builder, op, sizes, *x, shape, bias);
    return true;
  }
  const Weights weights = pack(w, sizes);
  const Dims packed_shape = weights.values.shape();
  const Stored values = builder.add_constant(
      packed_shape, {ElementType::s8, 1, 0}, row_major(packed_shape),
      std::shared_ptr<void>(std::make_shared<Tensor>(weights.values), weights.values.raw()));
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  builder.add_loop(
      "linear", product_loop(sizes, x->rows),
      {x->values, x->scale, x->zero_point, values.place, builder.add_floats(weights.scale).place,
       builder.add_floats(weights.shift).place, builder.add_floats(bias).place, y.place});
  builder.define(op.outputs[0], y);
  return true;
}

}  // namespace octet::onednn
