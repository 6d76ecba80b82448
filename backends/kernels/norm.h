// Layer norm, RMS norm, group norm and batch norm, of floats or bytes, to floats or bytes.
//
//   layer norm  y = (x - mean) / sqrt(variance + eps) * weight + bias, per row (Ba et al., 2016)
//   RMS norm    without mean and bias (Zhang and Sennrich, 2019)
//   group norm  a row is a group of channels, with weights per channel (Wu and He, 2018)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/kernels/parallel.h"
#include "backends/kernels/vector_math.h"

namespace octet {

// y = (x - mean) / sqrt(variance + eps) * weight + bias, with mean and variance of each row.
struct RowNorm {
  int64_t rows = 0;
  int64_t width = 0;
  double eps = 0;
  bool is_centered = true;        // false: RMS norm, which does not subtract the mean
  int64_t run_length = 1;         // neighboring elements of a row that share a weight and a bias
  int64_t groups = 1;             // rows i and i + groups share their weights
  std::vector<float> weight;      // [groups, width / run_length]
  std::vector<float> bias;        // as `weight`, or empty where `run_length` and `groups` are 1
  std::optional<ByteScale> from;  // scale of byte inputs; nullopt: floats
  std::optional<ByteScale> to;

  // from: x. y may alias x when both are floats. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

// Group norm of floats with the channels innermost: x, y: [batch, pixels, channels].
struct PixelGroupNorm {
  int64_t batch = 0, pixels = 0, channels = 0, groups = 1;
  double eps = 0;
  std::vector<float> weight;  // [channels]
  std::vector<float> bias;

  size_t scratch_bytes() const;
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

// y = x * factor + shift per channel, of floats or signed bytes: a batch norm that was not folded
// into a convolution. x, y: [outer, channels, inner].
struct ChannelAffine {
  int64_t outer = 0, channels = 0, inner = 0;
  std::vector<float> factor;  // [channels]; for byte inputs it applies to the integers
  std::vector<float> shift;
  bool is_byte = false;  // whether x has bytes
  std::optional<ByteScale> to;

  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

}  // namespace octet
