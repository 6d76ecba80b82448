// Softmax of signed bytes along any dimension, in any memory order: what XNNPACK lacks for scales
// other than its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace octet::xnnpack {

struct ByteSoftmax {
  std::vector<int64_t> shape;  // of all dimensions but the one that sums to 1
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  int64_t size = 0;  // of that one
  int64_t from_step = 0;
  int64_t to_step = 0;
  std::array<double, 256> exponentials{};  // of how many steps an element lies below the greatest
  double inverse_scale = 1;                // of the output
  int32_t zero_point = 0;
};

ByteSoftmax byte_softmax(float input_scale, float output_scale, int32_t output_zero_point);
// Allocates nothing; at most kHighestRank dimensions (copy.h).
void run(const ByteSoftmax& softmax, const std::byte* from, std::byte* to);

}  // namespace octet::xnnpack
