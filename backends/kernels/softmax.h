// Softmax along any dimension, of floats and of signed bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernels/parallel.h"

namespace octet {

// x, y: [outer, size, inner], of which `size` sums to 1. y may be x. As in PyTorch, a row with
// nothing but -inf, or with inf or NaN in it, gives NaNs; a masked row with nothing but -inf gives
// zeros.
struct FloatSoftmax {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  bool is_masked = false;

  // from: x. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

// In any memory order, by a table of exponentials.
struct ByteSoftmax {
  std::vector<int64_t> shape;  // all dimensions except the one that sums to 1
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  int64_t size = 0;  // of that one
  int64_t from_step = 0;
  int64_t to_step = 0;
  std::array<double, 256> exponentials{};  // by how many steps an element lies below the greatest
  double inverse_scale = 1;                // of the output
  int32_t zero_point = 0;

  // Without shape and strides.
  ByteSoftmax(float input_scale, float output_scale, int32_t output_zero_point);
  // from: x. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

}  // namespace octet
