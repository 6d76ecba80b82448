// Convolutions and linear layers of int16 activations with constant integer weights.
//
// The instruction that multiplies pairs of int16 and adds both products to 32 bits (vpmaddwd,
// vpdpwssd) sums exactly while |sum| < 2^31. Since |x| <= 2^15, that holds as long as the
// magnitudes of an output's weights add up to less than 2^16. Weights are cut into parts for which
// that is so, mostly a single one, and the sums of parts are added in double, which is exact below
// 2^53. If a weight has a magnitude of 256 or more, all are split into two digits, which are
// multiplied one after the other. So sums are exact for any weights, and the result has the bits of
// backends/reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/kernels/int16_forms.h"
#include "backends/kernels/parallel.h"
#include "core/base/tensor.h"

namespace octet {

// y = clamp(sum of (x - zero point) * weight * scale + bias). x: integers [images, height, width,
// channels], y [images, out_height, out_width, outputs]. A linear layer has a pixel for each row.
struct Int16ProductTerms {
  int64_t images = 1, height = 1, width = 1, channels = 1;
  int64_t out_height = 1, out_width = 1, outputs = 1, groups = 1;
  int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, dilation[2] = {1, 1}, padding[2] = {0, 0};
  RealForm x, y;
  RealLimits limits;
  std::vector<int16_t> weights;  // [outputs, kernel, channels / groups], minus their zero points
  std::vector<double> scale;     // [outputs]
  std::vector<double> bias;      // [outputs]
};

struct PackedInt16Product;

class Int16Product {
 public:
  explicit Int16Product(const Int16ProductTerms& terms);
  // from: x. scratch: scratch_bytes(). Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
  int64_t scratch_bytes() const;

 private:
  std::shared_ptr<const PackedInt16Product> packed_;
};

}  // namespace octet
