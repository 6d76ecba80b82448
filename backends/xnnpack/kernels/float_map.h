// A function of floats, element by element.
#pragma once

#include <cstddef>

#include "backends/common/float_loops.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {

struct FloatMap {
  int64_t count = 0;
  FloatFunction function;
};

// Allocates nothing. pool: null for one thread.
inline void run(const FloatMap& map, const std::byte* from, std::byte* to, pthreadpool_t pool) {
  const float* const x = reinterpret_cast<const float*>(from);
  float* const y = reinterpret_cast<float*>(to);
  for_parts(pool, map.count, rows_per_part(1),
            [&](int64_t first, int64_t last) { map.function(x + first, y + first, last - first); });
}

}  // namespace octet::xnnpack
