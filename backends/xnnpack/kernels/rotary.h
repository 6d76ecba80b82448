// Rotary position embeddings of rows of floats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// y = x * cosine + (-second half of x, first half of x) * sine; the halves are those of a row.
struct Rotary {
  int64_t width = 0;             // of a row
  std::vector<int64_t> shape;    // of x without its last dimension
  std::vector<int64_t> strides;  // where the rows of cosine and sine lie; 0 repeats

  // from: x, cosine, sine; x and y in row-major order. Allocates nothing. pool: null for one
  // thread.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           pthreadpool_t pool) const;
};

}  // namespace octet::xnnpack
