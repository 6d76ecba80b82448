// Own loops cut into parts for the threads, and (vectorised.h) compiled for several instruction
// sets.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "backends/common/vectorised.h"

namespace octet::onednn {

// Calls body(part, first, last) on parts of [0, rows), one for each of OpenMP's threads when there
// are enough elements for them.
template <typename Body>
void for_numbered_parts(int64_t rows, int64_t row_elements, const Body& body) {
  constexpr int64_t kElementsPerThread = 16384;
  const int64_t parts =
      std::min<int64_t>({omp_get_max_threads(), rows,
                         std::max<int64_t>(rows * row_elements / kElementsPerThread, 1)});
  if (parts <= 1) return body(int64_t{0}, int64_t{0}, rows);
#pragma omp parallel for schedule(static, 1) num_threads(static_cast<int>(parts))
  for (int64_t part = 0; part < parts; ++part)
    body(part, rows * part / parts, rows * (part + 1) / parts);
}

// Calls body(first, last) on the same parts.
template <typename Body>
void for_parts(int64_t rows, int64_t row_elements, const Body& body) {
  for_numbered_parts(rows, row_elements,
                     [&](int64_t, int64_t first, int64_t last) { body(first, last); });
}

// The same on [0, count) elements; parts begin at multiples of kChunk.
template <typename Body>
void for_chunks(int64_t count, const Body& body) {
  constexpr int64_t kChunk = 256;
  for_parts((count + kChunk - 1) / kChunk, kChunk, [&](int64_t first, int64_t last) {
    body(first * kChunk, std::min(last * kChunk, count));
  });
}

}  // namespace octet::onednn
