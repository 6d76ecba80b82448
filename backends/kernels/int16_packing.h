// Weights and constants of Int16Product, in the order in which its loops read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/kernels/int16_product.h"
#include "backends/kernels/int16_results.h"

namespace octet {

// The names that packing and the loops share.
namespace int16_product {

inline constexpr int64_t kMostTaps = 128;  // window positions whose addresses are kept at once
inline constexpr int64_t kWidestTile = 6;  // pixels

// What is multiplied: a whole weight, or one of its two digits in -128 .. 128: the weight is 256
// times the high digit plus the low one. Without digits, a part of large weights would end after
// two or three inputs.
enum class Digit { kWhole, kHigh, kLow };
inline constexpr int32_t kHighFactor = 256;

// Consecutive pairs of inputs at one window position. is_last: of a part.
struct Span {
  int32_t tap, pair, count;
  Digit digit;
  bool is_last;
};

// Up to four vectors of outputs of one group. A word of 32 bits has the weights of two inputs.
struct Panel {
  int64_t group, first, count;  // outputs
  int64_t vectors;
  size_t words;      // the first one
  size_t constants;  // those of the first output
  std::vector<Span> spans;
  int64_t parts = 0;
};

// Channels of a depthwise convolution that are multiplied at once.
struct Block {
  int64_t first, count;
};

}  // namespace int16_product

struct PackedInt16Product {
  using Digit = int16_product::Digit;

  Int16ProductTerms t;  // those of the loops
  int64_t lanes = 4;    // outputs of a vector
  bool is_depthwise = false;
  bool is_split = false;                     // weights have two digits
  bool is_widened = false;                   // x is copied to scratch memory first
  int64_t channels = 0;                      // of x
  int64_t stride = 0;                        // int16 elements of a pixel that the loops read
  int64_t before = 0, after = 0;             // pixels of zero points that the copy adds to a row
  std::vector<int16_product::Panel> panels;  // none if depthwise
  std::vector<int16_product::Block> blocks;  // only if depthwise
  // panels: for each 128 window positions, for each digit [pairs, outputs]; blocks: [digits, pairs
  // of window positions, 2 * lanes channels in the order of vpunpcklwd and vpunpckhwd]
  std::vector<int32_t> words;
  Int16Constants constants;
  std::vector<int16_t> padding;  // zero points for a window position outside of x
  std::vector<int64_t> offsets;  // elements of x from the first window position to each
  int64_t reach[2] = {0, 0};     // rows and columns of x from the first window position to the last

  int64_t taps() const { return t.kernel[0] * t.kernel[1]; }
  int64_t depth() const { return t.channels / t.groups; }
  int64_t pixels() const { return t.images * t.out_height * t.out_width; }
  int64_t tile() const { return lanes == 16 ? int16_product::kWidestTile : 4; }
  std::span<const Digit> digits() const {
    static constexpr Digit kWhole[] = {Digit::kWhole}, kTwo[] = {Digit::kHigh, Digit::kLow};
    return is_split ? std::span<const Digit>(kTwo) : std::span<const Digit>(kWhole);
  }
  Int16Results results() const {
    return {t.y, t.limits, t.outputs, 1.0 / static_cast<double>(t.y.scale), constants};
  }
  const int16_t* weights_of(int64_t output) const {
    return t.weights.data() + output * taps() * depth();
  }
};

// Does not depend on activations.
std::shared_ptr<const PackedInt16Product> pack_int16_product(const Int16ProductTerms& terms);

}  // namespace octet
