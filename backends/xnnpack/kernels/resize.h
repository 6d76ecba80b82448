// Images and volumes at another size, as weighted sums of pixels: floats or signed bytes, to floats
// or signed bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/xnnpack/functions.h"
#include "backends/xnnpack/kernels/elements.h"

namespace octet::xnnpack {

// Along one dimension; those of output position i are [first[i], first[i + 1]).
struct ResizeAxis {
  struct Tap {
    int64_t at;
    float weight;
  };
  int64_t in = 1;
  std::vector<Tap> taps = {{0, 1}};
  std::vector<int64_t> first = {0, 1};
  int64_t out() const { return std::ssize(first) - 1; }
};

// x [outer, in of three axes, inner] -> y [outer, out of three axes, inner].
struct ImageResize {
  int64_t outer = 1;
  std::array<ResizeAxis, 3> axes;
  int64_t inner = 1;
  std::optional<ByteScale> from;  // of bytes; nothing: floats
  std::optional<ByteScale> to;
  size_t scratch_bytes() const;
};

// scratch: scratch_bytes(). Allocates nothing. pool: null for one thread.
void run(const ImageResize& resize, std::span<const std::byte* const> from, std::byte* to,
         std::byte* scratch, pthreadpool_t pool);

}  // namespace octet::xnnpack
