// Sums, means and extremes over neighbouring dimensions, of floats or signed bytes, to floats or
// signed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "backends/xnnpack/functions.h"
#include "backends/xnnpack/kernels/elements.h"

namespace octet::xnnpack {

// x is [outer, size, inner] in memory, y [outer, inner].
struct Reduction {
  enum class Kind { kSum, kMean, kMax, kMin };
  Kind kind = Kind::kSum;
  int64_t outer = 0, size = 0, inner = 0;
  std::optional<ByteScale> from;  // of bytes; nothing: floats
  std::optional<ByteScale> to;
  // clamp, in steps of y where y has bytes
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

// Allocates nothing. pool: null for one thread.
void run(const Reduction& reduction, const std::byte* from, std::byte* to, pthreadpool_t pool);

}  // namespace octet::xnnpack
