// Weights and constants of Int16Product, in the order in which its loops read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/kernels/int16_product.h"

namespace octet {

struct PackedInt16Product {
  static constexpr int64_t kMostTaps = 128;  // window positions whose addresses are kept at once
  static constexpr int64_t kWidestTile = 6;  // pixels

  // Consecutive pairs of inputs at one window position. is_last: of a part.
  struct Span {
    int32_t tap, pair, count;
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

  Int16ProductTerms t;
  int64_t lanes = 4;  // outputs of a vector
  bool is_depthwise = false;
  bool is_widened = false;     // x is copied to scratch memory first
  int64_t stride = 0;          // int16 elements of a pixel that the loops read
  std::vector<Panel> panels;   // none if depthwise
  std::vector<int32_t> words;  // panels: [pairs, outputs]; depthwise: [taps, outputs]
  // as words, for each output: takes the zero point of x out of a sum; the scale and bias
  std::vector<double> shift, scale, bias;
  std::vector<int16_t> padding;  // a pixel of zero points

  int64_t taps() const { return t.kernel[0] * t.kernel[1]; }
  int64_t depth() const { return t.channels / t.groups; }
  int64_t pixels() const { return t.images * t.out_height * t.out_width; }
  int64_t tile() const { return lanes == 16 && !is_depthwise ? kWidestTile : 4; }
  const int16_t* weights_of(int64_t output) const {
    return t.weights.data() + output * taps() * depth();
  }
};

// Does not depend on activations.
std::shared_ptr<const PackedInt16Product> pack_int16_product(const Int16ProductTerms& terms);

}  // namespace octet
