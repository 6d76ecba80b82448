#include "backends/onednn/onednn_byte_pack.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backends/onednn/onednn_byte_bins.h"
#include "backends/onednn/onednn_packed.h"

namespace octet::onednn {

std::vector<Run> runs_of(const ByteConvShape& s, int64_t segment) {
  if (s.segments > 1)
    return {
        {0, 0, segment * (s.channels / s.segments), s.channels / s.segments}
    };
  std::vector<Run> runs;
  const bool is_dense = s.dilation[2] == 1;
  for (int64_t row = 0; row < s.kernel[0] * s.kernel[1]; ++row)
    for (int64_t column = 0; column < (is_dense ? 1 : s.kernel[2]); ++column)
      runs.push_back({row, column, 0, s.channels * (is_dense ? s.kernel[2] : 1)});
  return runs;
}

int64_t blocks_of(const ByteConvShape& s, const TileKernels& kernels) { return (s.outputs + kernels.lanes - 1) / kernels.lanes; }

int lanes_of(const ByteConvShape& s, const TileKernels& kernels, int64_t block) { return kernels.block_lanes(s.outputs - block * kernels.lanes); }

namespace {

constexpr int kMostUsual = 75;         // pairs of such bytes are far below kMostPair
constexpr int64_t kLeastReaders = 64;  // of a word of x: fewer do not pay for looking at it
constexpr double kMostBinCost = 0.97;  // of kWords: else its scratch memory is the better bargain

// Of one segment.
int64_t steps_of(const ByteConvShape& s, int step_elements) {
  int64_t steps = 0;
  for (const Run& run : runs_of(s, 0)) steps += (run.elements + step_elements - 1) / step_elements;
  return steps;
}

int64_t pieces_of(const ByteConvShape& s, const TileKernels& kernels) { return s.groups * blocks_of(s, kernels) * s.segments; }

// The weights of one piece in the order of its steps: [steps, lanes, step_elements], 0 where there are none.
std::vector<int8_t> in_steps(const ByteConvShape& s, const int8_t* weights, int64_t piece, const TileKernels& kernels) {
  const int64_t blocks = blocks_of(s, kernels), segment = piece % s.segments, group = piece / s.segments / blocks;
  const int64_t block = piece / s.segments % blocks, channel = block * kernels.lanes, lanes = lanes_of(s, kernels, block),
                step_elements = kernels.step_elements;
  const int64_t kernel = s.kernel[0] * s.kernel[1] * s.kernel[2];
  std::vector<int8_t> packed(static_cast<size_t>(steps_of(s, kernels.step_elements) * lanes * step_elements), 0);
  const int64_t count = std::min<int64_t>(lanes, s.outputs - channel);
  int8_t* to = packed.data();
  for (const Run& run : runs_of(s, segment)) {
    for (int64_t element = 0; element < (run.elements + step_elements - 1) / step_elements * step_elements; ++element) {
      if (element < run.elements) {
        const int64_t column = run.column + (run.first + element) / s.channels, input = (run.first + element) % s.channels;
        const int8_t* from = weights + ((group * s.outputs + channel) * s.channels + input) * kernel + run.kernel_row * s.kernel[2] + column;
        for (int64_t lane = 0; lane < count; ++lane) to[lane * step_elements + element % step_elements] = from[lane * s.channels * kernel];
      }
      if (element % step_elements == step_elements - 1) to += lanes * step_elements;
    }
  }
  return packed;
}

PackedTiles pack_plain(const ByteConvShape& s, const int8_t* weights, const TileKernels& kernels) {
  PackedTiles packed;
  packed.kernels = &kernels;
  const int64_t pieces = pieces_of(s, kernels), piece_bytes = steps_of(s, kernels.step_elements) * kernels.step_weights(kernels.lanes);
  packed.weights = aligned_block(pieces * piece_bytes);
  for (int64_t i = 0; i < pieces; ++i) {
    const std::vector<int8_t> piece = in_steps(s, weights, i, kernels);
    std::byte* to = packed.weights.get() + i * piece_bytes;
    packed.first.push_back(i * piece_bytes);
    if (kernels.weight_bytes() == 2) {
      std::copy(piece.begin(), piece.end(), reinterpret_cast<int16_t*>(to));
    } else {
      std::memcpy(to, piece.data(), piece.size());
    }
  }
  return packed;
}

// Where in `order`, which has each step once, every step stands.
std::vector<int32_t> places_of(const std::vector<int32_t>& order) {
  std::vector<int32_t> at(order.size());
  for (size_t i = 0; i < order.size(); ++i) at[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  return at;
}

// Nothing when the weights are too large for bins to pay.
std::optional<PackedTiles> pack_bins(const ByteConvShape& s, const int8_t* weights, const BinTiles& tiles, ByteBound bound) {
  const TileKernels& kernels = tiles.bins;
  const int64_t pieces = pieces_of(s, kernels), steps = steps_of(s, kernels.step_elements);
  const auto piece_at = [&](int64_t i) { return make_bins(in_steps(s, weights, i, kernels), kernels.lanes, bound); };
  double cost = 0;
  const int64_t samples = std::min<int64_t>(pieces, 3);
  for (int64_t i = 0; i < samples; ++i) cost += cost_of(piece_at(i * pieces / samples), steps) / static_cast<double>(samples);
  if (cost > kMostBinCost) return std::nullopt;
  PackedTiles packed;
  packed.kernels = &kernels;
  if (bound.pair == kMostPair && 2 * bound.byte > kMostPair) packed.bin_tiles = &tiles;
  std::vector<std::vector<int8_t>> all;
  int64_t bytes = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    BinnedBlock piece = piece_at(i);
    packed.first.push_back(bytes);
    packed.bins.push_back(std::to_array(piece.bins));
    if (packed.bin_tiles != nullptr) packed.at.push_back(places_of(piece.order));
    packed.order.push_back(std::move(piece.order));
    all.push_back(std::move(piece.weights));
    bytes += std::ssize(all.back());
  }
  packed.weights = aligned_block(bytes);
  for (int64_t i = 0; i < pieces; ++i)
    std::memcpy(packed.weights.get() + packed.first[static_cast<size_t>(i)], all[static_cast<size_t>(i)].data(), all[static_cast<size_t>(i)].size());
  return packed;
}

}  // namespace

std::shared_ptr<const PackedTiles> pack_tiles(const ByteConvShape& s, const Tensor& weights, ByteRange range) {
  const BinTiles* tiles = find_bin_tiles();
  const int64_t readers = s.outputs * s.kernel[0] * s.kernel[1] * s.kernel[2];
  // Excess is by words of one pixel.
  const bool has_bound = range.usual <= kMostUsual && s.segments == 1 && s.channels % 4 == 0 && readers >= kLeastReaders;
  const ByteBound bound = {std::max<int>(range.highest, 64), has_bound ? kMostPair : 2 * 255};
  const std::string form = fmt::format("tiles, {} groups, {} segments, dense {}, {} at most {} in pairs of {}", s.groups, s.segments,
                                       s.dilation[2] == 1, (tiles == nullptr ? *find_tile_kernels() : tiles->bins).name, bound.byte, bound.pair);
  return std::static_pointer_cast<const PackedTiles>(find_or_pack(weights, {form, {}, {}}, [&]() -> std::shared_ptr<void> {
    const Tensor data = weights.contiguous();
    std::optional<PackedTiles> packed;
    if (tiles != nullptr) packed = pack_bins(s, data.data<int8_t>(), *tiles, bound);
    if (!packed) packed = pack_plain(s, data.data<int8_t>(), *find_tile_kernels());
    return std::make_shared<PackedTiles>(std::move(*packed));
  }));
}

}  // namespace octet::onednn
