// What sums of products of bytes with constant weights become.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace octet::xnnpack {

// y = clamp(sum * scale + bias); where y has bytes, all of it in its steps.
struct ByteScales {
  std::vector<float> scale;       // of each output: the weight's, times what is known of x's
  std::vector<float> bias;        // likewise
  float low = 0, high = 0;        // clamp
  std::optional<int32_t> y_zero;  // of bytes; nothing: floats
};

}  // namespace octet::xnnpack
