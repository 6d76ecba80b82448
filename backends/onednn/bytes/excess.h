// Makes products of bytes exact where 16-bit sums would overflow: removes from x what is too large
// for the bins of bins.h, and adds its products separately.
//
// Bins assume that no pair of neighboring bytes of x has a sum above kMostPair, 255 (bins.h). A
// pair that breaks this, (200, 90) say, has an excess of 35. list_excess() subtracts it, leaving
// (165, 90), and lists it; its products with the weights become part of the sums that the pixels of
// a band start from. The results are exact for all x, and cheap where such pairs are rare, as after
// a ReLU. FBGEMM treats outlier weights in this way (see bins.h).
#pragma once

#include <cstdint>

#include "backends/onednn/bytes/conv_shape.h"
#include "backends/onednn/bytes/tiles.h"

namespace octet::onednn {

// The input for a band of output rows and columns: [kernel planes, input rows, groups, input
// columns * channels] bytes. Channels are a multiple of 4, so that every step is a word of one
// pixel.
struct BandInput {
  int64_t rows, columns;              // of the output
  int64_t input_rows, input_columns;  // of x, as read by the band
  int64_t scratch_rows;               // rows of a plane in memory, of which input_rows come first
  int64_t group_step;                 // bytes
};

// Memory of one thread for the lists.
struct ExcessMemory {
  Taken* taken;       // [most]
  Excess* excess;     // [most]
  int32_t* of_group;  // [groups + 1]: where each group begins in `excess`
  int64_t most;
};

// Subtracts the excess from `x` and lists what it adds to each sum; pixels are numbered by rows of
// band.columns. Returns false, with x unchanged, when the memory is too small for the lists.
bool list_excess(const ByteConvShape& shape, const BinTiles& tiles, const BandInput& band,
                 std::byte* x, const ExcessMemory& memory);

}  // namespace octet::onednn
