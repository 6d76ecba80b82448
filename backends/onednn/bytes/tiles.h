// Multiplies and sums bytes (u8 x s8), exactly in 32 bits, on every x86 CPU with AVX2. A tile is a
// few pixels times one block of output channels, whose sums stay in registers. A "pixel" is what
// one row of a matrix product reads: a pixel of an image, or a row of x. A step is one 32-bit word
// of x. The packed weights have a vector for each step and each vector of channels:
//
//                    weights of a step    w[c0] w[c1] w[c2] ...    one block of channels
//   word of pixel 0, in all lanes    x    sums of pixel 0
//   word of pixel 1, in all lanes    x    sums of pixel 1          registers of the tile
//   ...
//
// A tile processes all steps before it writes its sums, so the weights of a step are loaded once
// for all its pixels (the usual blocking of matrix products: Goto and van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008).
//
// One skeleton (tiles.inc) is compiled for each instruction set and each way to multiply:
//   kWords   vpmaddwd: adds two 16-bit products. x is widened to u16 before, weights when they are
//            packed. Exact for all weights.
//   kPairs   vpmaddubsw: adds pairs of products in 16 bits. Steps are grouped in bins, whose
//            products fit 16 bits when added, for any x, so that only the sum of a bin is widened
//            (bins.h). Faster than kWords where the bins are full.
//   kWide    vpmaddwd on the weights of kPairs, widened here: for bytes that are too large for
//            these bins. Any order of steps, no bins.
//   kQuads   vpdpbusd (VNNI): adds four products in 32 bits.
//   kChannels  depthwise: vpmaddwd on a vector of channels, each with the words of two kernel rows,
//              instead of one word for all channels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace octet::onednn {

enum class Multiply { kWords, kPairs, kWide, kQuads, kChannels };

// How a tile turns its sums into outputs. Octet's AVX512-VNNI kernels round fused, oneDNN's step by
// step; results must be bit-identical to theirs.
enum class TileOutput {
  // round(sum * scale + bias), clamped, as u8 or s8. Step by step, the bias excludes the zero
  // point, which is added after it.
  kBytes,
  // as kBytes with a u8 residual, added before rounding. Fused: residual * residual_scale. Step by
  // step: (sum * scale + bias + residual) * residual_scale.
  kSum,
  kReals,  // min(max(sum * scale + bias, low), high) as f32, step by step
  kRaw,    // s32
  kTotal,  // y + sum * scale as f32: adds one group of a row after another
};

inline constexpr int64_t bytes_of(TileOutput output) {
  return output == TileOutput::kBytes || output == TileOutput::kSum ? 1 : 4;
}

inline constexpr int kMostBin = 4;     // steps in a bin
inline constexpr int kMostPixels = 8;  // in a tile

// One block of channels for the pixels of consecutive tiles of one width.
struct Tile {
  int64_t tiles;           // how many
  const std::byte* x;      // the first pixel
  int64_t x_step;          // bytes to the next pixel
  const int32_t* offsets;  // bytes from a pixel to each step
  int64_t steps;           // not kPairs
  // kPairs: the number of bins with kMostBin steps, with one less, ... with one step
  const int32_t* bins;
  const std::byte* weights;  // as `start`, `scale` and `bias`: per channel of the block
  const int32_t* start;      // initial sums; padded to the block
  int64_t start_step;        // kPairs, kWide: elements to the next pixel; 0: all start alike
  const float* scale;
  const float* bias;
  const uint8_t* residual;    // kSum: of the first pixel
  void* y;                    // of the first pixel
  int64_t y_step;             // elements to the next pixel, of y and of the residual
  int64_t channels;           // valid channels of the block
  float residual_scale;       // kSum
  float low, high;            // kReals
  bool is_fused;              // kBytes, kSum
  float zero_point;           // kBytes, kSum, step by step: of y as written
  uint8_t least, most, flip;  // kBytes, kSum: clamp as u8; xor mask, 128 makes s8
};

// Advances by `pixels`.
inline void move(Tile& tile, TileOutput output, int64_t pixels) {
  tile.x += pixels * tile.x_step;
  tile.y = static_cast<std::byte*>(tile.y) + pixels * tile.y_step * bytes_of(output);
  tile.start += pixels * tile.start_step;
  if (tile.residual != nullptr) tile.residual += pixels * tile.y_step;
}

using TileKernel = void (*)(const Tile& tile);

// The kernels of one instruction set and way to multiply.
struct TileKernels {
  Multiply multiply;
  int lanes;          // channels of a block
  int step_elements;  // elements of x in a step: 2 or 4
  int most_pixels;    // at most kMostPixels
  const char* name;
  TileKernel kernels[5][kMostPixels];  // by output and pixels - 1; null beyond most_pixels
  // for blocks of half the channels; null for kPairs and kWide
  TileKernel half_kernels[5][kMostPixels];

  int x_bytes() const { return multiply == Multiply::kWords ? 2 : 1; }       // of an element of x
  int weight_bytes() const { return multiply == Multiply::kWords ? 2 : 1; }  // of a packed weight
  // Channels of a block when `channels` remain; the last block may be a half.
  int block_lanes(int64_t channels) const {
    return channels <= lanes / 2 && half_kernels[0][0] != nullptr ? lanes / 2 : lanes;
  }
  // bytes of a step's packed weights
  int step_weights(int block_lanes) const { return block_lanes * step_elements * weight_bytes(); }
  TileKernel kernel(TileOutput output, int block_lanes, int64_t pixels) const {
    return (block_lanes == lanes ? kernels : half_kernels)[static_cast<int>(output)][pixels - 1];
  }
  // Splits `pixels` into tiles of nearly equal width (7 pixels into 4 and 3): tiles of one width,
  // then tiles of one pixel less, if any.
  struct Run {
    int64_t pixel;  // the first
    int64_t tiles;
    int64_t width;
  };
  std::array<Run, 2> split(int64_t pixels) const;
  // Runs `pixels` pixels from the first one on, and moves the tile past them.
  void run(Tile& tile, TileOutput output, int block_lanes, int64_t pixels) const;
};

// Interleaves two rows of x for kChannels: a column becomes vectors of words a0 b0 a1 b1 ..., for
// `channels` channels (at most a block; the rest is 0). a_step, b_step, to_step: bytes from a
// column to the next.
using Interleave = void (*)(const uint8_t* a, int64_t a_step, const uint8_t* b, int64_t b_step,
                            int64_t columns, int64_t channels, std::byte* to, int64_t to_step);

// The largest sum of a pair of bytes of x that bins may assume. The excess of a word above it is
// subtracted and multiplied separately.
inline constexpr int kMostPair = 255;

// A word of x that had pairs above kMostPair, and what was subtracted from its bytes.
struct Taken {
  int32_t word;
  std::array<uint8_t, 4> rest;
};

// A term to add to the sums of one pixel of a tile: `rest` times the weights of a step.
struct Excess {
  int32_t pixel, step;
  std::array<uint8_t, 4> rest;
};

// Kernels for weights in bins.
struct BinTiles {
  TileKernels bins;  // kPairs
  TileKernels wide;  // kWide, on the same weights
  bool (*has_excess)(const std::byte* x, int64_t words);
  // Subtracts what is above kMostPair from `words` words of x. Returns the number of changed words,
  // or ~count when it stopped because there would be more than `most`.
  int64_t (*take_excess)(std::byte* x, int64_t words, Taken* to, int64_t most);
  // sums: [pixels, lanes]. at: the position of each step among the weights.
  void (*add_excess)(const Excess* excess, int64_t count, const std::byte* weights,
                     const int32_t* at, int32_t* sums);
};

// Kernels for depthwise convolutions: kBytes and kReals.
struct DepthwiseTiles {
  TileKernels tiles;
  Interleave interleave;
};

// The best kernels that this CPU supports: exact for all weights; with bins, null where VNNI makes
// them pointless. Null without AVX2.
const TileKernels* find_tile_kernels();
const BinTiles* find_bin_tiles();
// The kernels of kWords.
const TileKernels* find_word_kernels();
const DepthwiseTiles* find_depthwise_tiles();

}  // namespace octet::onednn
