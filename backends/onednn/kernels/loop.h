// Runs kernels in a segment: as functions of the addresses of their arguments, split across
// OpenMP's threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "backends/kernels/parallel.h"

namespace octet::onednn {

// Takes the addresses in the order that the kernel's header lists.
using Loop = std::function<void(std::byte* const* arguments)>;

// A loop that needs scratch memory, passed as an additional argument.
struct ScratchLoop {
  Loop loop;
  int64_t scratch_bytes = 0;     // 0: no such argument
  const char* kernel = nullptr;  // name of the kernel
};

// Sets OpenMP's thread count and restores the caller's. oneDNN's primitives keep the count that is
// set when they are created.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    if (before_ != threads) omp_set_num_threads(threads);
    changed_ = before_ != threads;
  }
  ~ThreadCount() {
    if (changed_) omp_set_num_threads(before_);
  }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
  bool changed_ = false;
};

// Calls body(part, first, last) on parts of [0, rows), one per OpenMP thread if there are enough
// elements.
template <typename Body>
void for_numbered_parts(int64_t rows, int64_t row_elements, const Body& body) {
  const int64_t parts = std::min<int64_t>(
      {omp_get_max_threads(), rows, std::max<int64_t>(rows * row_elements / kElementsPerPart, 1)});
  if (parts <= 1) return body(int64_t{0}, int64_t{0}, rows);
#pragma omp parallel for schedule(static, 1) num_threads(static_cast<int>(parts))
  for (int64_t part = 0; part < parts; ++part)
    body(part, rows * part / parts, rows * (part + 1) / parts);
}

// As above, without the number of the part.
template <typename Body>
void for_parts(int64_t rows, int64_t row_elements, const Body& body) {
  for_numbered_parts(rows, row_elements,
                     [&](int64_t, int64_t first, int64_t last) { body(first, last); });
}

// Passes OpenMP's threads to the kernels of backends/kernels.
inline Parallel on_openmp() {
  return {[](void*, int64_t rows, int64_t row_elements, Parallel::Part part, const void* body) {
            for_parts(rows, row_elements,
                      [&](int64_t first, int64_t last) { part(body, first, last); });
          },
          nullptr, omp_get_max_threads()};
}

// Wraps a kernel of backends/kernels. Arguments: its inputs, scratch memory (if any), y.
template <typename Kernel>
Loop loop_of(Kernel kernel, size_t inputs, bool has_scratch) {
  return [kernel = std::move(kernel), inputs, has_scratch](std::byte* const* arguments) {
    kernel.run({arguments, inputs}, arguments[inputs + (has_scratch ? 1 : 0)],
               has_scratch ? arguments[inputs] : nullptr, on_openmp());
  };
}

}  // namespace octet::onednn
