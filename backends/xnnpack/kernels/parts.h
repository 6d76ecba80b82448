// Splits loops into parts for the threads of a pthreadpool.
#pragma once

#include <cstdint>

#include "backends/kernels/parallel.h"
#include "backends/xnnpack/functions.h"

namespace octet::xnnpack {

// Rounds up to a multiple of `step`.
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

// Passes the pool to the kernels of backends/kernels. pool: null for one thread.
inline Parallel parallel_on(pthreadpool_t pool) {
  const int64_t threads =
      pool == nullptr ? 1 : static_cast<int64_t>(pthreadpool_get_threads_count(pool));
  return {
      [](void* context, int64_t rows, int64_t row_elements, Parallel::Part part, const void* body) {
        for_parts(static_cast<pthreadpool_t>(context), rows, rows_per_part(row_elements),
                  [&](int64_t first, int64_t last) { part(body, first, last); });
      },
      pool, threads};
}

}  // namespace octet::xnnpack
