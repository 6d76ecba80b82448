// Own loops compiled for several instruction sets; the best one that the CPU has is taken when the loop runs.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace octet::onednn {

template <typename Body>
void run_generic(const Body& body) {
  body();
}
#if defined(__x86_64__)
template <typename Body>
[[gnu::target("avx2,fma")]] void run_avx2(const Body& body) {
  body();
}
template <typename Body>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")]] void run_avx512(const Body& body) {
  body();
}
#endif

// Runs body(), a lambda with __attribute__((always_inline)), with the widest vectors of this CPU.
template <typename Body>
void run_vectorised(const Body& body) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) return run_avx512(body);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_avx2(body);
#endif
  run_generic(body);
}

// Calls body(first, last) on parts of [0, rows), one for each of OpenMP's threads when there are enough elements for them.
template <typename Body>
void for_parts(int64_t rows, int64_t row_elements, const Body& body) {
  constexpr int64_t kElementsPerThread = 16384;
  const int64_t parts = std::min<int64_t>({omp_get_max_threads(), rows, std::max<int64_t>(rows * row_elements / kElementsPerThread, 1)});
  if (parts <= 1) return body(int64_t{0}, rows);
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
  for (int64_t part = 0; part < parts; ++part) body(rows * part / parts, rows * (part + 1) / parts);
}

// The same on [0, count) elements; parts begin at multiples of kChunk.
template <typename Body>
void for_chunks(int64_t count, const Body& body) {
  constexpr int64_t kChunk = 256;
  for_parts((count + kChunk - 1) / kChunk, kChunk, [&](int64_t first, int64_t last) { body(first * kChunk, std::min(last * kChunk, count)); });
}

}  // namespace octet::onednn
