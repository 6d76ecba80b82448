// What bins do not hold: pairs of bytes of x whose sum is above kMostPair. It is taken out of a
// band's input, and its products are added apart, to what the sums of the band's pixels start from.
// Exact whatever x is; cheap where few pairs are so, as after a ReLU.
#pragma once

#include <cstdint>

#include "backends/onednn/bytes/conv_shape.h"
#include "backends/onednn/bytes/tiles.h"

namespace octet::onednn {

// The input of some rows and columns of output pixels: [kernel planes, input rows, groups, input
// columns * channels] bytes. Channels are a multiple of 4, so that every step is a word of one
// pixel.
struct BandInput {
  int64_t rows, columns;              // of the output
  int64_t input_rows, input_columns;  // of these, what is read
  int64_t scratch_rows;               // rows of a plane, of which those are the first
  int64_t group_step;                 // bytes
};

// Memory for lists, that of one thread.
struct ExcessMemory {
  Taken* taken;       // [most]
  Excess* excess;     // [most]
  int32_t* of_group;  // [groups + 1]: where each group's begin in `excess`
  int64_t most;
};

// Takes what is too much out of `x` and lists what it is to every sum; pixels are counted by rows
// of band.columns. False, with x as it was, when there is more than the memory holds.
bool list_excess(const ByteConvShape& shape, const BinTiles& tiles, const BandInput& band,
                 std::byte* x, const ExcessMemory& memory);

}  // namespace octet::onednn
