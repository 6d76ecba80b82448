// Layer norm, RMS norm and group norm of rows of floats or signed bytes, to floats or signed bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/xnnpack/functions.h"
#include "backends/xnnpack/kernels/elements.h"

namespace octet::xnnpack {

struct LayerNorm {
  int64_t rows = 0;
  int64_t width = 0;
  float eps = 0;
  bool is_centered = true;        // false: RMS norm, the rows' means stay
  int64_t run = 1;                // neighbouring elements of a row that share weight and bias
  int64_t groups = 1;             // rows with weights of their own, before those come again
  std::vector<float> weight;      // [groups, width / run]
  std::vector<float> bias;        // likewise
  std::optional<ByteScale> from;  // of bytes; nothing: floats
  std::optional<ByteScale> to;
  int32_t zero_point() const { return from ? from->zero_point : 0; }
};

// Allocates nothing. pool: null for one thread.
void run(const LayerNorm& norm, const std::byte* from, std::byte* to, pthreadpool_t pool);

}  // namespace octet::xnnpack
