// Runs custom kernels on the threads of a backend. Each backend wraps its thread pool in a
// Parallel.
#pragma once

#include <algorithm>
#include <cstdint>

namespace octet {

// Parts with fewer elements do not repay the cost of a thread.
inline constexpr int64_t kElementsPerPart = 16384;

class Parallel {
 public:
  // Processes rows [first, last).
  using Part = void (*)(const void* context, int64_t first, int64_t last);
  // Splits [0, rows) into parts and runs them on the threads of `pool`. A row has `row_elements`
  // elements.
  using Run = void (*)(void* pool, int64_t rows, int64_t row_elements, Part part,
                       const void* context);

  Parallel(Run run, void* pool, int64_t threads) : run_(run), pool_(pool), threads_(threads) {}

  // Calls body(first, last) on parts that cover [0, rows).
  template <typename Body>
  void operator()(int64_t rows, int64_t row_elements, const Body& body) const {
    run_(
        pool_, rows, row_elements,
        [](const void* context, int64_t first, int64_t last) {
          (*static_cast<const Body*>(context))(first, last);
        },
        &body);
  }

  // As above, with at most one equal part per thread, for kernels that gain from long parts.
  template <typename Body>
  void evenly(int64_t rows, int64_t row_elements, const Body& body) const {
    const int64_t parts = std::min<int64_t>(
        {threads_, rows, std::max<int64_t>(rows * row_elements / kElementsPerPart, 1)});
    (*this)(parts, kElementsPerPart,
            [&](int64_t first, int64_t last) { body(rows * first / parts, rows * last / parts); });
  }

  // As above, on [0, count) elements; parts begin at multiples of 256.
  template <typename Body>
  void chunks(int64_t count, const Body& body) const {
    constexpr int64_t kChunk = 256;
    (*this)((count + kChunk - 1) / kChunk, kChunk, [&](int64_t first, int64_t last) {
      body(first * kChunk, std::min(last * kChunk, count));
    });
  }

 private:
  Run run_;
  void* pool_;
  int64_t threads_;
};

inline int64_t rows_per_part(int64_t row_elements) {
  return std::max<int64_t>(kElementsPerPart / std::max<int64_t>(row_elements, 1), 1);
}

}  // namespace octet
