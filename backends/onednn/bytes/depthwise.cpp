// Input rows are interleaved in pairs, so that one multiplication sums two kernel rows per channel.
// A pair serves all output rows of a band that read it; weights are 0 for rows that they do not
// read.
#include "backends/onednn/bytes/conv.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "backends/kernels/isa.h"
#include "backends/onednn/form.h"
#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/packed.h"

namespace octet::onednn {
namespace {

constexpr int64_t kMostBand = 4;         // output rows that share pairs
constexpr int64_t kScratch = 64 * 1024;  // bytes of interleaved columns
constexpr int64_t kMostLanes = 32;

struct Plan {
  ByteConvShape shape;
  ByteConvOutput output;
  const DepthwiseTiles* kernels = nullptr;
  int64_t blocks = 1;
  int64_t band = 1;     // output rows processed together
  int64_t period = 1;   // output rows until kernel rows align with pairs again
  int64_t pairs = 1;    // of input rows in a band
  int64_t columns = 1;  // output columns processed together
  // per output row of a band: kernel columns x pairs that it reads
  std::vector<int32_t> offsets[kMostBand];
  int64_t weights_begin[kMostBand] = {};  // per output row of a band: bytes, in a block's weights
  int64_t block_weights = 0;              // bytes
  std::shared_ptr<void> weights;
  std::vector<float> scale, bias;  // padded to blocks
  std::vector<int32_t> start;      // padded to blocks

  int64_t lanes() const { return kernels->tiles.lanes; }
  int64_t pair_step() const { return lanes() * 4; }  // bytes: two words per channel
  int64_t column_step() const { return pairs * pair_step(); }
};

int64_t pair_begin(const Plan& p, int64_t row) { return row * p.shape.stride[1] / 2; }
int64_t pair_end(const Plan& p, int64_t row) {
  return (row * p.shape.stride[1] + p.shape.kernel[1] + 1) / 2;
}

void pack(const Plan& p, const int8_t* weights, int16_t* to) {
  const ByteConvShape& s = p.shape;
  for (int64_t block = 0; block < p.blocks; ++block)
    for (int64_t row = 0; row < p.period; ++row)
      for (int64_t kw = 0; kw < s.kernel[2]; ++kw)
        for (int64_t pair = pair_begin(p, row); pair < pair_end(p, row); ++pair)
          for (int64_t lane = 0; lane < p.lanes(); ++lane)
            for (int64_t i = 0; i < 2; ++i, ++to) {
              const int64_t channel = block * p.lanes() + lane,
                            kh = pair * 2 + i - row * s.stride[1];
              const bool is_there = channel < s.groups && kh >= 0 && kh < s.kernel[1];
              *to =
                  is_there ? weights[(channel * s.kernel[1] + kh) * s.kernel[2] + kw] : int16_t{0};
            }
}

Plan make_plan(const ByteConvShape& shape, const Tensor& weights, const ByteConvOutput& output) {
  Plan plan;
  plan.shape = shape;
  plan.output = output;
  plan.kernels = find_depthwise_tiles();
  plan.blocks = (shape.groups + plan.lanes() - 1) / plan.lanes();
  const bool shares = shape.dilation[1] == 1 && shape.stride[1] <= shape.kernel[1];
  plan.band = shares ? std::min(kMostBand, shape.out_size[1]) : 1;
  plan.period = std::min<int64_t>(plan.band, shape.stride[1] % 2 == 0 ? 1 : 2);
  plan.pairs = pair_end(plan, plan.band - 1);
  const int64_t most =
      kScratch / plan.column_step() - (shape.kernel[2] - 1) * shape.dilation[2] - 1;
  plan.columns = std::clamp<int64_t>(most / shape.stride[2] + 1, 1, shape.out_size[2]);
  for (int64_t row = 0; row < plan.band; ++row) {
    plan.weights_begin[row] =
        row < plan.period ? plan.block_weights : plan.weights_begin[row - plan.period];
    for (int64_t kw = 0; kw < shape.kernel[2]; ++kw)
      for (int64_t pair = pair_begin(plan, row); pair < pair_end(plan, row); ++pair)
        plan.offsets[row].push_back(static_cast<int32_t>(
            kw * shape.dilation[2] * plan.column_step() + pair * plan.pair_step()));
    if (row < plan.period) plan.block_weights += std::ssize(plan.offsets[row]) * plan.pair_step();
  }
  const std::string form = fmt::format("depthwise words, lanes {}, stride {}, period {}",
                                       plan.lanes(), shape.stride[1], plan.period);
  const size_t bytes = static_cast<size_t>(plan.blocks * plan.block_weights);
  plan.weights = find_or_pack(weights, {form, {}, {}, bytes}, [&]() -> PackedBlock {
    const std::shared_ptr<std::byte> packed = aligned_block(plan.blocks * plan.block_weights);
    pack(plan, weights.contiguous().data<int8_t>(), reinterpret_cast<int16_t*>(packed.get()));
    return {packed, bytes};
  });
  plan.scale = output.scales.scale;
  plan.bias = output.scales.bias;
  plan.start = output.start;
  plan.start.resize(static_cast<size_t>(plan.blocks * plan.lanes()), 0);
  plan.scale.resize(static_cast<size_t>(plan.blocks * plan.lanes()), 0.0f);
  plan.bias.resize(static_cast<size_t>(plan.blocks * plan.lanes()), 0.0f);
  return plan;
}

// Interleaves the input columns of a band of output rows from `out_row` on: columns x pairs.
void interleave_band(const Plan& p, const uint8_t* x, int64_t out_row, int64_t first, int64_t count,
                     int64_t channel, std::byte* scratch) {
  const ByteConvShape& s = p.shape;
  const int64_t channels = std::min(p.lanes(), s.groups - channel);
  std::array<uint8_t, kMostLanes> padding;
  padding.fill(p.output.scales.padding);
  const int64_t from = std::clamp<int64_t>(first, 0, s.size[2]),
                end = std::clamp<int64_t>(first + count, from, s.size[2]);
  for (int64_t pair = 0; pair < p.pairs; ++pair) {
    const uint8_t* rows[2] = {padding.data(), padding.data()};
    int64_t steps[2] = {0, 0};
    for (int64_t i = 0; i < 2; ++i) {
      const int64_t row = out_row * s.stride[1] - s.padding[1] + (pair * 2 + i) * s.dilation[1];
      if (row < 0 || row >= s.size[1]) continue;
      rows[i] = x + (row * s.size[2] + from) * s.groups + channel;
      steps[i] = s.groups;
    }
    std::byte* to = scratch + pair * p.pair_step();
    const auto put = [&](bool is_padding, int64_t columns) {
      p.kernels->interleave(is_padding ? padding.data() : rows[0], is_padding ? 0 : steps[0],
                            is_padding ? padding.data() : rows[1], is_padding ? 0 : steps[1],
                            columns, channels, to, p.column_step());
      to += columns * p.column_step();
    };
    put(true, from - first);
    put(false, end - from);
    put(true, first + count - end);
  }
}

// Computes one band of output rows of an image for one block of channels.
void run_block(const Plan& p, int64_t block, const uint8_t* x, std::byte* y, int64_t out_row,
               std::byte* scratch) {
  const ByteConvShape& s = p.shape;
  const TileKernels& tiles = p.kernels->tiles;
  const int64_t channel = block * p.lanes();
  Tile tile = tile_for(p.output);
  tile.x_step = s.stride[2] * p.column_step();
  tile.start = p.start.data() + channel;
  tile.scale = p.scale.data() + channel;
  tile.bias = p.bias.data() + channel;
  tile.y_step = s.groups;
  tile.channels = std::min(p.lanes(), s.groups - channel);
  for (int64_t begin = 0; begin < s.out_size[2]; begin += p.columns) {
    const int64_t columns = std::min(p.columns, s.out_size[2] - begin);
    const int64_t reach = (columns - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
    interleave_band(p, x, out_row, begin * s.stride[2] - s.padding[2], reach, channel, scratch);
    for (int64_t row = 0; row < std::min(p.band, s.out_size[1] - out_row); ++row) {
      tile.offsets = p.offsets[row].data();
      tile.steps = std::ssize(p.offsets[row]);
      tile.weights = static_cast<const std::byte*>(p.weights.get()) + block * p.block_weights +
                     p.weights_begin[row];
      tile.x = scratch;
      tile.y = y + (((out_row + row) * s.out_size[2] + begin) * s.groups + channel) *
                       bytes_of(p.output.output);
      tiles.run(tile, p.output.output, tiles.lanes, columns);
    }
  }
}

int64_t scratch_bytes(const Plan& p) {
  return ((p.columns - 1) * p.shape.stride[2] + (p.shape.kernel[2] - 1) * p.shape.dilation[2] + 1) *
         p.column_step();
}

void run(const Plan& p, const uint8_t* x, std::byte* y, std::byte* scratch) {
  const ByteConvShape& s = p.shape;
  const int64_t bands = (s.out_size[1] + p.band - 1) / p.band;
  const int64_t x_image = s.size[1] * s.size[2] * s.groups,
                y_image = s.out_size[1] * s.out_size[2] * s.groups;
  for_numbered_parts(s.batch * bands * p.blocks, p.band * s.out_size[2] * p.lanes() * s.kernel[1],
                     [&](int64_t part, int64_t first, int64_t last) {
                       for (int64_t i = first; i < last; ++i) {
                         const int64_t band = i / p.blocks, image = band / bands;
                         run_block(p, i % p.blocks, x + image * x_image,
                                   y + image * y_image * bytes_of(p.output.output),
                                   band % bands * p.band, scratch + part * scratch_bytes(p));
                       }
                     });
}

}  // namespace

bool has_byte_depthwise(const ByteConvShape& s) {
  const bool is_depthwise = s.groups > 1 && s.channels == 1 && s.outputs == 1;
  const bool is_flat =
      s.size[0] == 1 && s.out_size[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0;
  constexpr int64_t kMostKernel = 32;
  return is_depthwise && is_flat && !may_use(Isa::kAvx512Vnni) &&
         find_depthwise_tiles() != nullptr && s.kernel[1] <= kMostKernel &&
         (s.kernel[2] - 1) * s.dilation[2] < 2 * kMostKernel;
}

ScratchLoop byte_depthwise_loop(const ByteConvShape& shape, const Tensor& weights,
                                const ByteConvOutput& output) {
  const std::shared_ptr<const Plan> plan =
      std::make_shared<const Plan>(make_plan(shape, weights, output));
  Loop loop = [plan](std::byte* const* arguments) {
    run(*plan, reinterpret_cast<const uint8_t*>(arguments[0]), arguments[1], arguments[2]);
  };
  return {std::move(loop), omp_get_max_threads() * scratch_bytes(*plan), plan->kernels->tiles.name};
}

}  // namespace octet::onednn
