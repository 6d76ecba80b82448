// Sums, means, products, maxima and minima over neighboring dimensions, of floats or bytes, to
// floats or bytes. Reducing dimensions 1 and 2 of [2, 3, 4, 5] has outer = 2, size = 12, inner = 5.
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
  std::optional<ByteScale> from;  // of bytes (not for kProduct); nullopt: floats
  std::optional<ByteScale> to;
  // clamp, in steps of y when y has bytes
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();

  // from: x. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

// Finds the reduction of a `reduce` op by its function: "sum", "prod", "max", "min".
std::optional<Reduction::Kind> find_reduction(std::string_view function);

}  // namespace octet
