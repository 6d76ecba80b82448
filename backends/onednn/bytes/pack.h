// Packs the weights of conv.h in the order of the tiles. A piece is one block of outputs of one
// segment; pieces are ordered by group, block and segment.
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

// The packed weights of a convolution, shared by sessions, in one block of memory. They do not
// depend on the size of x.
struct PackedTiles {
  const TileKernels* kernels = nullptr;
  const BinTiles* bin_tiles = nullptr;  // set if x must have no pair above kMostPair, else null
  const std::byte* weights = nullptr;
  // Per piece:
  std::span<const int64_t> first;                       // bytes
  std::span<const std::array<int32_t, kMostBin>> bins;  // kPairs
  // order of the steps within the segment; kPairs
  std::vector<std::span<const int32_t>> order;
  // with bin_tiles: the position of each step in `order`
  std::vector<std::span<const int32_t>> at;
  std::shared_ptr<std::byte> block;
};

// A run of elements of x that the kernel reads contiguously, relative to a pixel.
struct Run {
  int64_t kernel_row = 0;  // depth * kernel height + height
  int64_t column = 0;      // in the kernel
  int64_t first = 0;       // element, relative to that column
  int64_t elements = 0;
};

// The runs of one segment in the order of its steps. Each run begins a new step.
std::vector<Run> runs_of(const ByteConvShape& shape, int64_t segment);

// The number of blocks of outputs in a group, and the channels of one block.
int64_t blocks_of(const ByteConvShape& shape, const TileKernels& kernels);
int lanes_of(const ByteConvShape& shape, const TileKernels& kernels, int64_t block);

// Packs for the best kernels of this CPU; uses bins if these weights fill them well. The result is
// shared by all that pack the same constant.
PackedTiles pack_tiles(const ByteConvShape& shape, const Tensor& weights, ByteRange range);

}  // namespace octet::onednn
