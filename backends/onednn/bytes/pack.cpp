// Packs weights for tiles: decides per convolution whether bins pay (cost_of), and orders the steps
// of each block of channels.
#include "backends/onednn/bytes/pack.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backends/onednn/bytes/bins.h"
#include "backends/onednn/kernels/vnni.h"
#include "backends/onednn/packed.h"

namespace octet::onednn {

std::vector<Run> runs_of(const ByteConvShape& s, int64_t segment) {
  if (s.segments > 1) return {{0, 0, segment * (s.channels / s.segments), s.channels / s.segments}};
  std::vector<Run> runs;
  const bool is_dense = s.dilation[2] == 1;
  for (int64_t row = 0; row < s.kernel[0] * s.kernel[1]; ++row)
    for (int64_t column = 0; column < (is_dense ? 1 : s.kernel[2]); ++column)
      runs.push_back({row, column, 0, s.channels * (is_dense ? s.kernel[2] : 1)});
  return runs;
}

int64_t blocks_of(const ByteConvShape& s, const TileKernels& kernels) {
  return (s.outputs + kernels.lanes - 1) / kernels.lanes;
}

int lanes_of(const ByteConvShape& s, const TileKernels& kernels, int64_t block) {
  return kernels.block_lanes(s.outputs - block * kernels.lanes);
}

namespace {

constexpr int kMostUsual = 75;          // pairs of such bytes are far below kMostPair
constexpr int64_t kLeastReaders = 128;  // of a word of x; with fewer, checking it does not pay
// relative to kWords, which is better above this, as it needs less scratch memory
constexpr double kMostBinCost = 0.97;

// The number of steps of one segment.
int64_t steps_of(const ByteConvShape& s, int step_elements) {
  int64_t steps = 0;
  for (const Run& run : runs_of(s, 0)) steps += (run.elements + step_elements - 1) / step_elements;
  return steps;
}

int64_t pieces_of(const ByteConvShape& s, const TileKernels& kernels) {
  return s.groups * blocks_of(s, kernels) * s.segments;
}

// The weights of one piece in the order of its steps: [steps, lanes, step_elements], padded with 0.
std::vector<int8_t> in_steps(const ByteConvShape& s, const int8_t* weights, int64_t piece,
                             const TileKernels& kernels) {
  const int64_t blocks = blocks_of(s, kernels), segment = piece % s.segments,
                group = piece / s.segments / blocks;
  const int64_t block = piece / s.segments % blocks, channel = block * kernels.lanes,
                lanes = lanes_of(s, kernels, block), step_elements = kernels.step_elements;
  const int64_t kernel = s.kernel[0] * s.kernel[1] * s.kernel[2];
  std::vector<int8_t> packed(
      static_cast<size_t>(steps_of(s, kernels.step_elements) * lanes * step_elements), 0);
  const int64_t count = std::min<int64_t>(lanes, s.outputs - channel);
  int8_t* to = packed.data();
  for (const Run& run : runs_of(s, segment)) {
    for (int64_t element = 0;
         element < (run.elements + step_elements - 1) / step_elements * step_elements; ++element) {
      if (element < run.elements) {
        const int64_t column = run.column + (run.first + element) / s.channels,
                      input = (run.first + element) % s.channels;
        const int8_t* from = weights +
                             ((group * s.outputs + channel) * s.channels + input) * kernel +
                             run.kernel_row * s.kernel[2] + column;
        for (int64_t lane = 0; lane < count; ++lane)
          to[lane * step_elements + element % step_elements] = from[lane * s.channels * kernel];
      }
      if (element % step_elements == step_elements - 1) to += lanes * step_elements;
    }
  }
  return packed;
}

// The header of a packed block. It is followed by first, bins, order and at, piece by piece, then
// by the weights at a multiple of kVector.
struct Front {
  int64_t is_binned;
  int64_t pieces;
  int64_t steps;  // of all pieces, in `order`
  int64_t has_bound;
};

// The offset of the weights in bytes.
int64_t weights_begin(const Front& front) {
  const int64_t words = front.is_binned == 0 ? 0
                                             : front.pieces * kMostBin + front.pieces +
                                                   front.steps * (front.has_bound == 0 ? 1 : 2);
  return (static_cast<int64_t>(sizeof(Front)) + front.pieces * 8 + words * 4 + kVector - 1) /
         kVector * kVector;
}

// Writes the arrays of a block in order.
struct Writer {
  std::byte* to;

  template <typename T>
  void put(const T* values, size_t count = 1) {
    std::memcpy(to, values, count * sizeof(T));
    to += count * sizeof(T);
  }
};

PackedBlock pack_plain(const ByteConvShape& s, const int8_t* weights, const TileKernels& kernels) {
  const int64_t pieces = pieces_of(s, kernels), piece_bytes = steps_of(s, kernels.step_elements) *
                                                              kernels.step_weights(kernels.lanes);
  const Front front = {0, pieces, 0, 0};
  const int64_t bytes = weights_begin(front) + pieces * piece_bytes;
  const std::shared_ptr<std::byte> block = aligned_block(bytes);
  std::fill_n(block.get(), bytes, std::byte{0});
  Writer writer{block.get()};
  writer.put(&front);
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t first = i * piece_bytes;
    writer.put(&first);
    const std::vector<int8_t> piece = in_steps(s, weights, i, kernels);
    std::byte* to = block.get() + weights_begin(front) + first;
    if (kernels.weight_bytes() == 2) {
      std::copy(piece.begin(), piece.end(), reinterpret_cast<int16_t*>(to));
    } else {
      std::memcpy(to, piece.data(), piece.size());
    }
  }
  return {block, static_cast<size_t>(bytes)};
}

// The position of each step in `order`, which contains each step once.
std::vector<int32_t> places_of(const std::vector<int32_t>& order) {
  std::vector<int32_t> at(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    at[static_cast<size_t>(order[i])] = static_cast<int32_t>(i);
  return at;
}

// nullopt when the weights are too large for bins to pay.
std::optional<PackedBlock> pack_bins(const ByteConvShape& s, const int8_t* weights,
                                     const TileKernels& kernels, ByteBound bound, bool has_bound) {
  const int64_t pieces = pieces_of(s, kernels), steps = steps_of(s, kernels.step_elements);
  const auto piece_at = [&](int64_t i) {
    return make_bins(in_steps(s, weights, i, kernels), kernels.lanes, bound);
  };
  double cost = 0;
  const int64_t samples = std::min<int64_t>(pieces, 3);
  for (int64_t i = 0; i < samples; ++i)
    cost += cost_of(piece_at(i * pieces / samples), steps) / static_cast<double>(samples);
  if (cost > kMostBinCost) return std::nullopt;
  std::vector<BinnedBlock> binned;
  std::vector<int64_t> first;
  Front front = {1, pieces, 0, has_bound ? 1 : 0};
  int64_t bytes = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    binned.push_back(piece_at(i));
    first.push_back(bytes);
    bytes += std::ssize(binned.back().weights);
    front.steps += std::ssize(binned.back().order);
  }
  bytes += weights_begin(front);
  const std::shared_ptr<std::byte> block = aligned_block(bytes);
  Writer writer{block.get()};
  writer.put(&front);
  writer.put(first.data(), first.size());
  for (const BinnedBlock& piece : binned) writer.put(piece.bins, kMostBin);
  for (const BinnedBlock& piece : binned) {
    const int32_t count = static_cast<int32_t>(piece.order.size());
    writer.put(&count);
  }
  for (const BinnedBlock& piece : binned) writer.put(piece.order.data(), piece.order.size());
  if (has_bound)
    for (const BinnedBlock& piece : binned)
      writer.put(places_of(piece.order).data(), piece.order.size());
  std::fill(writer.to, block.get() + weights_begin(front), std::byte{0});
  for (size_t i = 0; i < binned.size(); ++i)
    std::memcpy(block.get() + weights_begin(front) + first[i], binned[i].weights.data(),
                binned[i].weights.size());
  return PackedBlock{block, static_cast<size_t>(bytes)};
}

// Whether the size of a pack_bins block matches `front`, and each of its indices is in range.
bool fits_bins(const ByteConvShape& s, const TileKernels& kernels, const Front& front,
               const PackedBlock& block) {
  const int64_t begin = weights_begin(front), step_bytes = kernels.step_weights(kernels.lanes),
                steps = steps_of(s, kernels.step_elements);
  if (begin + front.steps * step_bytes != static_cast<int64_t>(block.size)) return false;
  const int64_t* first = reinterpret_cast<const int64_t*>(block.bytes.get() + sizeof(Front));
  const int32_t* bins = reinterpret_cast<const int32_t*>(first + front.pieces);
  const int32_t* counts = bins + front.pieces * kMostBin;
  const int32_t* order = counts + front.pieces;
  const auto are_below = [](const int32_t* values, int64_t count, int64_t end) {
    return std::all_of(values, values + count, [&](int32_t v) { return v >= 0 && v < end; });
  };
  int64_t before = 0;  // steps
  for (int64_t i = 0; i < front.pieces; ++i, bins += kMostBin) {
    int64_t binned = 0;
    for (int bin = 0; bin < kMostBin; ++bin) binned += int64_t{bins[bin]} * (kMostBin - bin);
    const int64_t count = counts[i];
    if (!are_below(bins, kMostBin, front.steps + 1) || binned != count ||
        count > front.steps - before || first[i] != before * step_bytes ||
        !are_below(order + before, count, steps))
      return false;
    if (front.has_bound != 0 &&
        (count != steps || !are_below(order + front.steps + before, count, count)))
      return false;
    before += count;
  }
  return before == front.steps;
}

// Whether the block could come from pack_plain or pack_bins, so that nothing reads past it or past
// x, whatever its weights are.
bool fits_tiles(const ByteConvShape& s, const BinTiles* tiles, bool has_bound,
                const PackedBlock& block) {
  Front front;
  if (block.size < sizeof(front)) return false;
  std::memcpy(&front, block.bytes.get(), sizeof(front));
  const bool is_binned = front.is_binned == 1 && tiles != nullptr;
  const TileKernels& kernels = is_binned ? tiles->bins : *find_tile_kernels();
  if (front.is_binned != (is_binned ? 1 : 0) || front.has_bound != (is_binned && has_bound) ||
      front.pieces != pieces_of(s, kernels) || front.steps < 0 ||
      front.steps > static_cast<int64_t>(block.size) ||
      weights_begin(front) > static_cast<int64_t>(block.size))
    return false;
  if (is_binned) return fits_bins(s, kernels, front, block);
  const int64_t piece_bytes =
      steps_of(s, kernels.step_elements) * kernels.step_weights(kernels.lanes);
  const int64_t* first = reinterpret_cast<const int64_t*>(block.bytes.get() + sizeof(front));
  for (int64_t i = 0; i < front.pieces; ++i)
    if (first[i] != i * piece_bytes) return false;
  return front.steps == 0 &&
         weights_begin(front) + front.pieces * piece_bytes == static_cast<int64_t>(block.size);
}

// Interprets a block of pack_plain or pack_bins.
PackedTiles read_tiles(std::shared_ptr<std::byte> block, const BinTiles* bins) {
  Front front;
  std::memcpy(&front, block.get(), sizeof(front));
  PackedTiles tiles;
  const size_t pieces = static_cast<size_t>(front.pieces);
  tiles.kernels = front.is_binned == 0 ? find_tile_kernels() : &bins->bins;
  tiles.bin_tiles = front.has_bound == 0 ? nullptr : bins;
  tiles.weights = block.get() + weights_begin(front);
  tiles.first = {reinterpret_cast<const int64_t*>(block.get() + sizeof(Front)), pieces};
  if (front.is_binned != 0) {
    tiles.bins = {
        reinterpret_cast<const std::array<int32_t, kMostBin>*>(tiles.first.data() + pieces),
        pieces};
    const int32_t* counts = reinterpret_cast<const int32_t*>(tiles.bins.data() + pieces);
    const int32_t* order = counts + pieces;
    for (size_t i = 0; i < pieces; order += counts[i++]) {
      tiles.order.emplace_back(order, static_cast<size_t>(counts[i]));
      if (front.has_bound != 0)
        tiles.at.emplace_back(order + front.steps, static_cast<size_t>(counts[i]));
    }
  }
  tiles.block = std::move(block);
  return tiles;
}

}  // namespace

PackedTiles pack_tiles(const ByteConvShape& s, const Tensor& weights, ByteRange range) {
  const BinTiles* tiles = find_bin_tiles();
  const int64_t readers = s.outputs * s.kernel[0] * s.kernel[1] * s.kernel[2];
  // Excess works on words of one pixel.
  const bool has_bound = range.usual <= kMostUsual && s.segments == 1 && s.channels % 4 == 0 &&
                         readers >= kLeastReaders;
  const ByteBound bound = {std::max<int>(range.highest, 64), has_bound ? kMostPair : 2 * 255};
  const std::string form = fmt::format(
      "tiles, {} groups, {} segments, dense {}, {}, at most {} in pairs of {}", s.groups,
      s.segments, s.dilation[2] == 1, (tiles == nullptr ? *find_tile_kernels() : tiles->bins).name,
      bound.byte, bound.pair);
  const bool has_excess = has_bound && 2 * bound.byte > kMostPair;
  const std::shared_ptr<std::byte> block = find_or_pack(
      weights, {form, {}, {}, 0},
      [&]() -> PackedBlock {
        const Tensor data = weights.contiguous();
        std::optional<PackedBlock> packed;
        if (tiles != nullptr)
          packed = pack_bins(s, data.data<int8_t>(), tiles->bins, bound, has_excess);
        return packed ? *packed : pack_plain(s, data.data<int8_t>(), *find_tile_kernels());
      },
      [&](const PackedBlock& known) { return fits_tiles(s, tiles, has_excess, known); });
  return read_tiles(block, tiles);
}

}  // namespace octet::onednn
