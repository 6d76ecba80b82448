// Makes two passes over a band of output rows and a block of channels. The first interleaves input
// rows in groups of four: a column becomes vectors whose 32-bit lanes hold one channel's bytes of
// four rows. The second multiplies these columns by kernel columns in the same layout. A group of
// rows serves several output rows: each has separate kernel vectors, with zeros for the rows that
// it does not read.
#include "backends/onednn/kernels/vnni_conv.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet::onednn {
namespace {

constexpr int64_t kMostRows = 8;         // input rows per band: two groups of four
constexpr int64_t kScratch = 48 * 1024;  // bytes of interleaved columns, in the L1 cache

struct Plan {
  ByteWindowShape shape;
  ByteScales scales;
  int64_t band = 1;        // output rows processed together
  int64_t groups = 1;      // groups of four input rows in a band
  int64_t tile = 1;        // output columns processed together
  int64_t group_begin[4];  // per output row of a band: the groups of rows that it reads
  int64_t group_end[4];
  // per output row of a band: kernel columns x groups that it reads, counted in groups
  std::vector<int64_t> offsets[4];
  std::vector<ChannelBlock> blocks;  // of 64 channels, then of 32 and 16
  // per block, output row of a band, kernel column, group that it reads: vectors
  std::shared_ptr<std::byte> weights;
  std::shared_ptr<std::byte> constants;  // per block: pack_constants
  // per output row of a band: offset of its weights in a block, in the block's vectors
  int64_t weight_begin[4];
  int64_t weight_end = 0;  // total weights of a block, in its vectors
};

int64_t band_rows(const ByteWindowShape& s) {
  if (s.kernel_h > kMostRows) return 0;
  const int64_t for_one_group = s.kernel_h <= 4 ? (4 - s.kernel_h) / s.stride_h + 1 : 0;
  const int64_t most = for_one_group > 1 ? for_one_group
                       : s.kernel_h <= 4 ? 1
                                         : (kMostRows - s.kernel_h) / s.stride_h + 1;
  return std::min<int64_t>({most, 4, s.out_height});
}

void pack_block(const Plan& plan, const ChannelBlock& block, const int8_t* weights,
                std::byte* all) {
  const ByteWindowShape& s = plan.shape;
  int8_t* to = reinterpret_cast<int8_t*>(all) + block.weights * kVector;
  for (int64_t row = 0; row < plan.band; ++row)
    for (int64_t kw = 0; kw < s.kernel_w; ++kw)
      for (int64_t group = plan.group_begin[row]; group < plan.group_end[row]; ++group)
        for (int64_t vector = 0; vector < block.vectors; ++vector)
          for (int64_t lane = 0; lane < kLanes; ++lane)
            for (int64_t i = 0; i < 4; ++i, ++to) {
              const int64_t channel = channel_of_lane(block.vectors, vector, lane),
                            kh = group * 4 + i - row * s.stride_h;
              if (channel < block.count && kh >= 0 && kh < s.kernel_h)
                *to = weights[((block.channel + channel) * s.kernel_h + kh) * s.kernel_w + kw];
            }
}

Plan make_plan(const ByteWindowShape& shape, const ByteScales& scales, const Tensor& weights) {
  Plan plan;
  plan.shape = shape;
  plan.scales = scales;
  plan.band = band_rows(shape);
  const int64_t rows = (plan.band - 1) * shape.stride_h + shape.kernel_h;
  plan.groups = (rows + 3) / 4;
  for (int64_t row = 0; row < plan.band; ++row) {
    plan.group_begin[row] = row * shape.stride_h / 4;
    plan.group_end[row] = (row * shape.stride_h + shape.kernel_h + 3) / 4;
    plan.weight_begin[row] = plan.weight_end;
    for (int64_t kw = 0; kw < shape.kernel_w; ++kw)
      for (int64_t group = plan.group_begin[row]; group < plan.group_end[row]; ++group)
        plan.offsets[row].push_back(kw * plan.groups + group);
    plan.weight_end += shape.kernel_w * (plan.group_end[row] - plan.group_begin[row]);
  }
  const int64_t columns = kScratch / (plan.groups * 4 * kVector);
  plan.tile = std::min(shape.out_width, (columns - shape.kernel_w) / shape.stride_w + 1);
  plan.blocks = channel_blocks(shape.channels, plan.weight_end);
  // The key includes the constant, so the number of channels and the kernel are implied.
  const std::string form =
      fmt::format("depthwise, stride {}, bands of {}", shape.stride_h, plan.band);
  plan.weights = pack_blocks(weights, form, plan.blocks, plan.weight_end,
                             [&](const ChannelBlock& block, const int8_t* from, std::byte* to) {
                               pack_block(plan, block, from, to);
                             });
  plan.constants = pack_constants(plan.blocks, scales);
  return plan;
}

#if defined(__x86_64__)

// Where a band reads its rows; padding rows read one vector repeatedly.
struct Rows {
  std::array<const uint8_t*, kMostRows> address;
  std::array<int64_t, kMostRows> step;
};

OCTET_VNNI_INLINE void interleave_64(const Rows& rows, int64_t first, int64_t column, __m512i* to) {
  const __m512i a = _mm512_loadu_si512(rows.address[first] + column * rows.step[first]);
  const __m512i b = _mm512_loadu_si512(rows.address[first + 1] + column * rows.step[first + 1]);
  const __m512i c = _mm512_loadu_si512(rows.address[first + 2] + column * rows.step[first + 2]);
  const __m512i d = _mm512_loadu_si512(rows.address[first + 3] + column * rows.step[first + 3]);
  const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
  to[0] = _mm512_unpacklo_epi16(ab_low, cd_low);
  to[1] = _mm512_unpackhi_epi16(ab_low, cd_low);
  to[2] = _mm512_unpacklo_epi16(ab_high, cd_high);
  to[3] = _mm512_unpackhi_epi16(ab_high, cd_high);
}

OCTET_VNNI_INLINE __m256i load_32(const Rows& rows, int64_t row, int64_t column,
                                  const ByteFinish& f) {
  const uint8_t* from = rows.address[row] + column * rows.step[row];
  return f.is_full ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))
                   : _mm256_maskz_loadu_epi8(f.mask, from);
}

OCTET_VNNI_INLINE void interleave_32(const Rows& rows, int64_t first, int64_t column,
                                     const ByteFinish& f, __m512i* to) {
  const __m256i a = load_32(rows, first, column, f), b = load_32(rows, first + 1, column, f);
  const __m256i c = load_32(rows, first + 2, column, f), d = load_32(rows, first + 3, column, f);
  const __m256i ab_low = _mm256_unpacklo_epi8(a, b), ab_high = _mm256_unpackhi_epi8(a, b);
  const __m256i cd_low = _mm256_unpacklo_epi8(c, d), cd_high = _mm256_unpackhi_epi8(c, d);
  __m256i* halves = reinterpret_cast<__m256i*>(to);
  halves[0] = _mm256_unpacklo_epi16(ab_low, cd_low);
  halves[1] = _mm256_unpackhi_epi16(ab_low, cd_low);
  halves[2] = _mm256_unpacklo_epi16(ab_high, cd_high);
  halves[3] = _mm256_unpackhi_epi16(ab_high, cd_high);
}

OCTET_VNNI_INLINE __m128i load_16(const Rows& rows, int64_t row, int64_t column,
                                  const ByteFinish& f) {
  const uint8_t* from = rows.address[row] + column * rows.step[row];
  return f.is_full ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(from))
                   : _mm_maskz_loadu_epi8(static_cast<__mmask16>(f.mask), from);
}

OCTET_VNNI_INLINE void interleave_16(const Rows& rows, int64_t first, int64_t column,
                                     const ByteFinish& f, __m512i* to) {
  const __m128i a = load_16(rows, first, column, f), b = load_16(rows, first + 1, column, f);
  const __m128i c = load_16(rows, first + 2, column, f), d = load_16(rows, first + 3, column, f);
  const __m128i ab_low = _mm_unpacklo_epi8(a, b), ab_high = _mm_unpackhi_epi8(a, b);
  const __m128i cd_low = _mm_unpacklo_epi8(c, d), cd_high = _mm_unpackhi_epi8(c, d);
  __m128i* quarters = reinterpret_cast<__m128i*>(to);
  quarters[0] = _mm_unpacklo_epi16(ab_low, cd_low);
  quarters[1] = _mm_unpackhi_epi16(ab_low, cd_low);
  quarters[2] = _mm_unpacklo_epi16(ab_high, cd_high);
  quarters[3] = _mm_unpackhi_epi16(ab_high, cd_high);
}

// Computes kPixels output columns of one output row; kSums indexes their sums. columns: of the
// first output column; step: to the next one; offsets: kernel columns x groups; both in groups.
// weights: kVectors per offset.
template <int kVectors, int... kSums, int... kPixels>
OCTET_VNNI_INLINE void multiply(std::integer_sequence<int, kSums...>,
                                std::integer_sequence<int, kPixels...>, const __m512i* columns,
                                int64_t step, const std::vector<int64_t>& offsets,
                                const __m512i* weights, const ByteFinish& finish, uint8_t* y,
                                int64_t y_step) {
  __m512i sums[sizeof...(kSums)];
  ((sums[kSums] = _mm512_setzero_si512()), ...);
  for (const int64_t offset : offsets) {
    ((sums[kSums] = _mm512_dpbusd_epi32(
          sums[kSums], columns[(offset + kSums / kVectors * step) * kVectors + kSums % kVectors],
          weights[kSums % kVectors])),
     ...);
    weights += kVectors;
  }
  (store_bytes<kVectors>(sums + kPixels * kVectors, finish, y + kPixels * y_step), ...);
}

template <int kVectors, int kColumns>
OCTET_VNNI_INLINE void multiply(const __m512i* columns, int64_t step,
                                const std::vector<int64_t>& offsets, const __m512i* weights,
                                const ByteFinish& finish, uint8_t* y, int64_t y_step) {
  multiply<kVectors>(std::make_integer_sequence<int, kColumns * kVectors>(),
                     std::make_integer_sequence<int, kColumns>(), columns, step, offsets, weights,
                     finish, y, y_step);
}

template <int kVectors>
OCTET_VNNI_INLINE void multiply_row(const Plan& p, const ChannelBlock& block, int64_t row,
                                    const __m512i* scratch, int64_t columns,
                                    const ByteFinish& finish, uint8_t* y) {
  const std::vector<int64_t>& offsets = p.offsets[row];
  const int64_t step = p.shape.stride_w * p.groups;
  const __m512i* weights = reinterpret_cast<const __m512i*>(p.weights.get()) + block.weights +
                           p.weight_begin[row] * kVectors;
  const int64_t channels = p.shape.channels;
  int64_t x = 0;
  const auto at = [&](int64_t column) { return scratch + column * step * kVectors; };
  for (; x + 7 <= columns; x += 7)
    multiply<kVectors, 7>(at(x), step, offsets, weights, finish, y + x * channels, channels);
  for (; x + 4 <= columns; x += 4)
    multiply<kVectors, 4>(at(x), step, offsets, weights, finish, y + x * channels, channels);
  for (; x < columns; ++x)
    multiply<kVectors, 1>(at(x), step, offsets, weights, finish, y + x * channels, channels);
}

// Computes one band of output rows from `out_row` on, for one block of channels.
template <int kVectors>
OCTET_VNNI void run_block(const Plan& p, const ChannelBlock& block, const uint8_t* x, uint8_t* y,
                          int64_t out_row) {
  const ByteWindowShape& s = p.shape;
  alignas(kVector) uint8_t padding[kVector];
  alignas(kVector) __m512i scratch[kScratch / kVector];
  std::fill_n(padding, kVector, p.scales.padding);
  const Rows all_padding = [&] {
    Rows rows;
    rows.address.fill(padding);
    rows.step.fill(0);
    return rows;
  }();
  Rows rows = all_padding;
  for (int64_t i = 0; i < (p.band - 1) * s.stride_h + s.kernel_h; ++i) {
    const int64_t row = out_row * s.stride_h - s.padding_h + i;
    if (row < 0 || row >= s.height) continue;
    rows.address[static_cast<size_t>(i)] = x + row * s.width * s.channels + block.channel;
    rows.step[static_cast<size_t>(i)] = s.channels;
  }
  const ByteFinish finish = finish_of(block, p.constants.get());
  const int64_t band = std::min(p.band, s.out_height - out_row);
  for (int64_t begin = 0; begin < s.out_width; begin += p.tile) {
    const int64_t columns = std::min(p.tile, s.out_width - begin);
    const int64_t first = begin * s.stride_w - s.padding_w,
                  count = (columns - 1) * s.stride_w + s.kernel_w;
    for (int64_t i = 0; i < count; ++i)
      for (int64_t group = 0; group < p.groups; ++group) {
        const Rows& from = first + i < 0 || first + i >= s.width ? all_padding : rows;
        __m512i* to = scratch + (i * p.groups + group) * kVectors;
        if constexpr (kVectors == 4) {
          interleave_64(from, group * 4, first + i, to);
        } else if constexpr (kVectors == 2) {
          interleave_32(from, group * 4, first + i, finish, to);
        } else {
          interleave_16(from, group * 4, first + i, finish, to);
        }
      }
    for (int64_t row = 0; row < band; ++row)
      multiply_row<kVectors>(
          p, block, row, scratch, columns, finish,
          y + ((out_row + row) * s.out_width + begin) * s.channels + block.channel);
  }
}

void run(const Plan& p, const uint8_t* x, uint8_t* y) {
  const ByteWindowShape& s = p.shape;
  const int64_t bands = (s.out_height + p.band - 1) / p.band,
                blocks = static_cast<int64_t>(p.blocks.size());
  for_parts(s.batch * bands * blocks, p.band * s.out_width * s.channels * s.kernel_h / blocks,
            [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i) {
                const ChannelBlock& block = p.blocks[static_cast<size_t>(i % blocks)];
                const int64_t band = i / blocks, n = band / bands;
                (block.vectors == 4 ? run_block<4>
                 : block.vectors == 2
                     ? run_block<2>
                     : run_block<1>)(p, block, x + n * s.height * s.width * s.channels,
                                     y + n * s.out_height * s.out_width * s.channels,
                                     band % bands * p.band);
              }
            });
}

#else

void run(const Plan&, const uint8_t*, uint8_t*) {}

#endif

}  // namespace

bool has_depthwise_kernel(const ByteWindowShape& shape) {
  return has_vnni() && fits_depthwise_kernel(shape);
}

bool fits_depthwise_kernel(const ByteWindowShape& shape) {
  // With a stride of 2 and a small kernel, rows share nothing; on large images oneDNN is then as
  // fast (EPYC, one thread: 56 to 62 us).
  if (shape.stride_h > 1 && shape.kernel_h <= 4 && shape.out_width >= 28) return false;
  return shape.channels >= 4 && shape.kernel_h <= kMostRows && shape.kernel_w <= kMostRows &&
         shape.stride_h <= 4 && shape.stride_w <= 4;
}

Loop depthwise_loop(const ByteWindowShape& shape, const Tensor& weights, const ByteScales& scales) {
  OCTET_ASSERT(has_depthwise_kernel(shape), "a depthwise shape that the kernel does not take");
  const std::shared_ptr<const Plan> plan =
      std::make_shared<const Plan>(make_plan(shape, scales, weights));
  return [plan](std::byte* const* arguments) {
    run(*plan, reinterpret_cast<const uint8_t*>(arguments[0]),
        reinterpret_cast<uint8_t*>(arguments[1]));
  };
}

}  // namespace octet::onednn
