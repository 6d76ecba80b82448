// Sums, means, products and extremes over neighbouring dimensions, of floats or bytes, to floats or
// bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "backends/kernels/parallel.h"
#include "backends/kernels/vector_math.h"

namespace octet {

// x is [outer, size, inner] in memory, y [outer, inner].
struct Reduction {
  enum class Kind { kSum, kMean, kProduct, kMax, kMin };
  Kind kind = Kind::kSum;
  int64_t outer = 1, size = 1, inner = 1;
  std::optional<ByteScale> from;  // of bytes, of which there are no products; nothing: floats
  std::optional<ByteScale> to;
  // clamp, in steps of y where y has bytes
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();

  // from: x. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

// For the function of an op `reduce`: "sum", "prod", "max", "min".
std::optional<Reduction::Kind> find_reduction(std::string_view function);

}  // namespace octet
