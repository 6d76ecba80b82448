// For each output row, copies the input rows that it reads to the L1 cache with their padding, then
// sums a few pixels times some channels in registers.
#include "backends/onednn/kernels/vnni_conv.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace octet::onednn {
namespace {

constexpr int64_t kScratch = 32 * 1024;  // bytes of input rows
constexpr int64_t kMostPointwise = 640;  // input channels of a 1x1 convolution

struct Plan {
  ByteWindowShape shape;
  ByteScales scales;
  int64_t words = 1;     // of four bytes, per kernel row
  int64_t tile = 1;      // output columns processed together
  int64_t row_step = 1;  // scratch bytes per input row
  // byte offsets of the words of a pixel from its first word: kernel rows x words
  std::vector<int64_t> offsets;
  std::vector<ChannelBlock> blocks;
  std::shared_ptr<std::byte> weights;    // per block, kernel row, word: vectors
  std::shared_ptr<std::byte> constants;  // per block: pack_constants
};

// Whether it is a 1x1 convolution whose pixels are runs of whole words in x. Only from few channels
// to many; otherwise oneDNN is faster.
bool is_pointwise(const ByteWindowShape& s) {
  const bool is_plain = s.kernel_h == 1 && s.kernel_w == 1 && s.stride_h == 1 && s.stride_w == 1 &&
                        s.padding_h == 0 && s.padding_w == 0;
  return is_plain && s.width == s.out_width && s.height == s.out_height && s.channels % 4 == 0 &&
         s.channels <= kMostPointwise && s.outputs >= 64 && s.out_width >= 8;
}

// Bytes of an input row that `columns` output columns read, up to the end of the last word.
int64_t row_bytes(const ByteWindowShape& s, int64_t columns) {
  return ((columns - 1) * s.stride_w * s.channels + (s.kernel_w * s.channels + 3) / 4 * 4 +
          kVector - 1) /
         kVector * kVector;
}

void pack_block(const Plan& plan, const ChannelBlock& block, const int8_t* weights,
                std::byte* all) {
  const ByteWindowShape& s = plan.shape;
  const int64_t lanes = block.vectors * kLanes, kernel = s.kernel_h * s.kernel_w;
  // index of the first weight of each lane's output; -1: none
  std::vector<int64_t> first(static_cast<size_t>(lanes), -1);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    const int64_t output = channel_of_lane(block.vectors, lane / kLanes, lane % kLanes);
    if (output < block.count)
      first[static_cast<size_t>(lane)] = (block.channel + output) * s.channels * kernel;
  }
  int8_t* to = reinterpret_cast<int8_t*>(all) + block.weights * kVector;
  for (int64_t kh = 0; kh < s.kernel_h; ++kh)
    for (int64_t word = 0; word < plan.words; ++word, to += lanes * 4)
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t kw = (word * 4 + i) / s.channels, channel = (word * 4 + i) % s.channels;
        if (kw >= s.kernel_w) break;
        const int8_t* from = weights + channel * kernel + kh * s.kernel_w + kw;
        for (int64_t lane = 0; lane < lanes; ++lane)
          if (first[static_cast<size_t>(lane)] >= 0)
            to[lane * 4 + i] = from[first[static_cast<size_t>(lane)]];
      }
}

// Joins several rows of a 1x1 convolution, so that weights serve more pixels per load.
ByteWindowShape with_long_rows(ByteWindowShape shape) {
  constexpr int64_t kPixels = 112;
  if (!is_pointwise(shape)) return shape;
  int64_t rows = 1;
  for (int64_t r = 2; r <= shape.height; ++r)
    if (shape.height % r == 0 && r * shape.width <= kPixels) rows = r;
  shape.height /= rows;
  shape.width *= rows;
  shape.out_height = shape.height;
  shape.out_width = shape.width;
  return shape;
}

Plan make_plan(const ByteWindowShape& given, const ByteScales& scales, const Tensor& weights) {
  const ByteWindowShape shape = with_long_rows(given);
  Plan plan;
  plan.shape = shape;
  plan.scales = scales;
  plan.words = (shape.kernel_w * shape.channels + 3) / 4;
  plan.tile = shape.out_width;
  while (plan.tile > 1 && shape.kernel_h * row_bytes(shape, plan.tile) > kScratch)
    plan.tile = (plan.tile + 1) / 2;
  plan.row_step = row_bytes(shape, plan.tile);
  for (int64_t kh = 0; kh < shape.kernel_h; ++kh)
    for (int64_t word = 0; word < plan.words; ++word)
      plan.offsets.push_back(kh * plan.row_step + word * 4);
  const int64_t weight_vectors = shape.kernel_h * plan.words;
  plan.blocks = channel_blocks(shape.outputs, weight_vectors);
  plan.weights = pack_blocks(weights, "image", plan.blocks, weight_vectors,
                             [&](const ChannelBlock& block, const int8_t* from, std::byte* to) {
                               pack_block(plan, block, from, to);
                             });
  plan.constants = pack_constants(plan.blocks, scales);
  return plan;
}

#if defined(__x86_64__)

OCTET_VNNI_INLINE __m512i broadcast_word(const uint8_t* from) {
  int32_t word;
  std::memcpy(&word, from, sizeof(word));
  return _mm512_set1_epi32(word);
}

// Output bytes, and at the same offsets the residual; null: none.
struct Target {
  uint8_t* y;
  const uint8_t* residual;
  Target at(int64_t offset) const {
    return {y + offset, residual == nullptr ? nullptr : residual + offset};
  }
};

// Computes kPixels pixels of one output row; kSums indexes their sums. rows: the first byte of the
// first pixel in the first kernel row.
template <int kVectors, int... kSums, int... kPixels>
OCTET_VNNI_INLINE void multiply(std::integer_sequence<int, kSums...>,
                                std::integer_sequence<int, kPixels...>, const Plan& p,
                                const uint8_t* rows, const __m512i* weights,
                                const ByteFinish& finish, const Target& to) {
  const int64_t step = p.shape.stride_w * p.shape.channels;
  __m512i sums[sizeof...(kSums)];
  ((sums[kSums] = _mm512_setzero_si512()), ...);
  for (const int64_t offset : p.offsets) {
    ((sums[kSums] =
          _mm512_dpbusd_epi32(sums[kSums], broadcast_word(rows + kSums / kVectors * step + offset),
                              weights[kSums % kVectors])),
     ...);
    weights += kVectors;
  }
  if constexpr (kVectors == 4) {
    if (to.residual != nullptr)
      return (store_sum(sums + kPixels * kVectors, finish, to.residual + kPixels * p.shape.outputs,
                        to.y + kPixels * p.shape.outputs),
              ...);
  }
  (store_bytes<kVectors>(sums + kPixels * kVectors, finish, to.y + kPixels * p.shape.outputs), ...);
}

template <int kVectors, int kColumns>
OCTET_VNNI_INLINE void multiply(const Plan& p, const uint8_t* rows, const __m512i* weights,
                                const ByteFinish& finish, const Target& to) {
  multiply<kVectors>(std::make_integer_sequence<int, kColumns * kVectors>(),
                     std::make_integer_sequence<int, kColumns>(), p, rows, weights, finish, to);
}

template <int kVectors>
OCTET_VNNI void multiply_row(const Plan& p, const ChannelBlock& block, const uint8_t* rows,
                             int64_t columns, const Target& row) {
  constexpr int kColumns = 24 / kVectors < 12 ? 24 / kVectors : 12;
  const __m512i* weights = reinterpret_cast<const __m512i*>(p.weights.get()) + block.weights;
  const ByteFinish finish = finish_of(block, p.constants.get());
  const int64_t step = p.shape.stride_w * p.shape.channels, outputs = p.shape.outputs;
  const Target to = row.at(block.channel);
  int64_t x = 0;
  for (; x + kColumns <= columns; x += kColumns)
    multiply<kVectors, kColumns>(p, rows + x * step, weights, finish, to.at(x * outputs));
  for (; x + 4 <= columns; x += 4)
    multiply<kVectors, 4>(p, rows + x * step, weights, finish, to.at(x * outputs));
  for (; x < columns; ++x)
    multiply<kVectors, 1>(p, rows + x * step, weights, finish, to.at(x * outputs));
}

// Copies the input rows for `columns` output columns from `begin` on.
void copy_rows(const Plan& p, const uint8_t* x, int64_t out_row, int64_t begin, int64_t columns,
               uint8_t* scratch) {
  const ByteWindowShape& s = p.shape;
  const int64_t first = begin * s.stride_w - s.padding_w,
                last = first + (columns - 1) * s.stride_w + s.kernel_w;
  const int64_t from = std::clamp<int64_t>(first, 0, s.width),
                to = std::clamp<int64_t>(last, from, s.width);
  for (int64_t kh = 0; kh < s.kernel_h; ++kh, scratch += p.row_step) {
    const int64_t row = out_row * s.stride_h - s.padding_h + kh;
    if (row < 0 || row >= s.height) {
      std::memset(scratch, p.scales.padding, static_cast<size_t>((last - first) * s.channels));
      continue;
    }
    std::memset(scratch, p.scales.padding, static_cast<size_t>((from - first) * s.channels));
    std::memcpy(scratch + (from - first) * s.channels, x + (row * s.width + from) * s.channels,
                static_cast<size_t>((to - from) * s.channels));
    std::memset(scratch + (to - first) * s.channels, p.scales.padding,
                static_cast<size_t>((last - to) * s.channels));
  }
}

void multiply_block(const Plan& p, const ChannelBlock& block, const uint8_t* rows, int64_t columns,
                    const Target& to) {
  (block.vectors == 4   ? multiply_row<4>
   : block.vectors == 2 ? multiply_row<2>
                        : multiply_row<1>)(p, block, rows, columns, to);
}

// Computes one output row; rows are numbered over all images.
void run_row(const Plan& p, const uint8_t* x, const Target& to, int64_t row) {
  const ByteWindowShape& s = p.shape;
  const uint8_t* image = x + row / s.out_height * s.height * s.width * s.channels;
  alignas(kVector) uint8_t scratch[kScratch];
  for (int64_t begin = 0; begin < s.out_width; begin += p.tile) {
    const int64_t columns = std::min(p.tile, s.out_width - begin);
    copy_rows(p, image, row % s.out_height, begin, columns, scratch);
    for (const ChannelBlock& block : p.blocks)
      multiply_block(p, block, scratch, columns, to.at((row * s.out_width + begin) * s.outputs));
  }
}

void run(const Plan& p, const uint8_t* x, const Target& to) {
  const ByteWindowShape& s = p.shape;
  const int64_t rows = s.batch * s.out_height,
                row_work = s.out_width * s.outputs * s.kernel_h * p.words;
  if (!is_pointwise(s)) {
    for_parts(rows, row_work, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) run_row(p, x, to, row);
    });
    return;
  }
  const int64_t blocks = static_cast<int64_t>(p.blocks.size());
  for_parts(rows * blocks, row_work / blocks, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i / blocks;
      multiply_block(p, p.blocks[static_cast<size_t>(i % blocks)], x + row * s.width * s.channels,
                     s.out_width, to.at(row * s.out_width * s.outputs));
    }
  });
}

#else

struct Target {
  uint8_t* y;
  const uint8_t* residual;
};
void run(const Plan&, const uint8_t*, const Target&) {}

#endif

}  // namespace

bool takes_residual(const ByteWindowShape& shape) {
  return is_pointwise(shape) && shape.outputs % 64 == 0;
}

bool has_image_conv_kernel(const ByteWindowShape& shape) {
  return has_vnni() && fits_image_conv_kernel(shape);
}

bool fits_image_conv_kernel(const ByteWindowShape& shape) {
  const bool is_image = shape.channels <= 4 && shape.kernel_h * row_bytes(shape, 1) <= kScratch;
  return shape.outputs >= 8 && (is_image || is_pointwise(shape));
}

const char* image_conv_name(const ByteWindowShape& shape) {
  return is_pointwise(shape) ? "pointwise convolution" : "image convolution";
}

Loop image_conv_loop(const ByteWindowShape& shape, const Tensor& weights, const ByteScales& scales,
                     bool adds) {
  OCTET_ASSERT(has_image_conv_kernel(shape) && (!adds || takes_residual(shape)),
               "a shape that the kernel does not take");
  const std::shared_ptr<const Plan> plan =
      std::make_shared<const Plan>(make_plan(shape, scales, weights));
  return [plan, adds](std::byte* const* arguments) {
    const Target to{reinterpret_cast<uint8_t*>(arguments[1]),
                    adds ? reinterpret_cast<const uint8_t*>(arguments[2]) : nullptr};
    run(*plan, reinterpret_cast<const uint8_t*>(arguments[0]), to);
  };
}

}  // namespace octet::onednn
