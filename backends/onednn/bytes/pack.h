// The weights of conv.h in the order of the tiles. A piece is one block of outputs of one segment;
// pieces follow each other by group, block and segment.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/onednn/bytes/conv_shape.h"
#include "backends/onednn/bytes/tiles.h"
#include "core/base/tensor.h"

namespace octet::onednn {

// The weights of a convolution, packed: what sessions share, in one block of memory. Independent of
// the sizes of x.
struct PackedTiles {
  const TileKernels* kernels = nullptr;
  const BinTiles* bin_tiles = nullptr;  // where x is to have no pair above kMostPair, else null
  const std::byte* weights = nullptr;
  // Per block and segment, "piece":
  std::span<const int64_t> first;                       // bytes
  std::span<const std::array<int32_t, kMostBin>> bins;  // kPairs
  // steps, counted from the segment's first; kPairs
  std::vector<std::span<const int32_t>> order;
  // with bin_tiles: the place of each step in `order`
  std::vector<std::span<const int32_t>> at;
  std::shared_ptr<std::byte> block;
};

// A run of x's elements that the kernel reads in one piece, seen from a pixel.
struct Run {
  int64_t kernel_row = 0;  // depth * kernel height + height
  int64_t column = 0;      // in the kernel
  int64_t first = 0;       // element, counted from that column
  int64_t elements = 0;
};

// The runs of one segment in the order of its steps; each run begins a new step.
std::vector<Run> runs_of(const ByteConvShape& shape, int64_t segment);

// Blocks of outputs of a group, and the channels of one of them.
int64_t blocks_of(const ByteConvShape& shape, const TileKernels& kernels);
int lanes_of(const ByteConvShape& shape, const TileKernels& kernels, int64_t block);

// Packed for the best kernels that this CPU may use: bins where these weights fit into them well.
// Shared by all that pack the same constant.
PackedTiles pack_tiles(const ByteConvShape& shape, const Tensor& weights, ByteRange range);

}  // namespace octet::onednn
