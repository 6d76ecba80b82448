// y = x * factor + shift with numbers of the channel, of floats or signed bytes, to floats or
// signed bytes: batch norms that no convolution took.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/xnnpack/functions.h"
#include "backends/xnnpack/kernels/elements.h"

namespace octet::xnnpack {

// x is [outer, channels, inner] in memory.
struct ChannelAffine {
  int64_t outer = 0, channels = 0, inner = 0;
  std::vector<float> factor;  // [channels], of bytes as they are
  std::vector<float> shift;   // likewise
  bool is_byte = false;
  std::optional<ByteScale> to;  // of bytes; nothing: floats
};

// Allocates nothing. pool: null for one thread.
void run(const ChannelAffine& affine, const std::byte* from, std::byte* to, pthreadpool_t pool);

}  // namespace octet::xnnpack
