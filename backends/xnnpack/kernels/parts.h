// Own loops cut into parts for the threads of a pool.
#pragma once

#include <cstdint>

#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// The next multiple of `step`.
constexpr int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// Calls body(first, last) on parts of [0, count) of at most `part` each. pool: null for one thread.
template <typename Body>
void for_parts(pthreadpool_t pool, int64_t count, int64_t part, const Body& body) {
  if (pool == nullptr) return body(int64_t{0}, count);
  pthreadpool_parallelize_1d_tile_1d(
      pool,
      [](void* context, size_t first, size_t size) {
        (*static_cast<const Body*>(context))(static_cast<int64_t>(first),
                                             static_cast<int64_t>(first + size));
      },
      const_cast<Body*>(&body), static_cast<size_t>(count), static_cast<size_t>(part), 0);
}

// So many rows that a part has about 16384 elements.
inline int64_t rows_per_part(int64_t row_elements) {
  constexpr int64_t kElementsPerPart = 16384;
  return row_elements >= kElementsPerPart
             ? 1
             : kElementsPerPart / (row_elements > 0 ? row_elements : 1);
}

}  // namespace octet::xnnpack
