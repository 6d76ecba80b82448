// Softmax along any dimension, of floats or of signed bytes: y[i] = e^(x[i] - m) / sum, where m is
// the maximum of the row, so that no exponential overflows. Bytes that are k steps below the
// maximum have the exponential e^(-k * scale), which a table of 256 entries holds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernels/parallel.h"

namespace octet {

// x, y: [outer, size, inner]; sums over `size` are 1. y may alias x. As in PyTorch, a row that is
// all -inf or contains inf or NaN becomes NaN; with is_masked, a row that is all -inf becomes
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

// Works in any memory order and looks exponentials up in a table.
struct ByteSoftmax {
  std::vector<int64_t> shape;  // all dimensions except the softmax dimension
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  int64_t size = 0;  // size and strides of the softmax dimension
  int64_t from_step = 0;
  int64_t to_step = 0;
  std::array<double, 256> exponentials{};  // by the number of steps below the row's maximum
  double inverse_scale = 1;                // 1 / scale of the output
  int32_t zero_point = 0;

  // Leaves shape and strides to the caller.
  ByteSoftmax(float input_scale, float output_scale, int32_t output_zero_point);
  // from: x. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

}  // namespace octet
