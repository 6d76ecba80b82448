// Loops over up to three strided tensors, and two kernels that use them: copies and rotary position
// embeddings.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/kernels/parallel.h"

namespace octet {

// A traversal of up to three tensors of one shape: an innermost run and the loops around it.
// Dimensions that are contiguous with each other in all tensors are merged: a copy of a row-major
// [2, 3, 4] is one run of 24 elements, its permutation to [3, 2, 4] 6 runs of 4.
struct Walk {
  std::vector<int64_t> counts;                // innermost last
  std::vector<std::array<int64_t, 3>> steps;  // per dimension, elements
};
inline constexpr size_t kHighestRank = 16;  // most dimensions of a walk

// y, a, b: strides. The innermost run is along the dimension with y's smallest stride.
Walk plan_walk(const std::vector<int64_t>& shape, const std::vector<int64_t>& y,
               const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// Calls body(offsets, count) for each innermost run; splits the run when there is only one.
template <typename Body>
void for_each_run(const Walk& walk, const Parallel& parallel, const Body& body) {
  const size_t loops = walk.counts.size() - 1;
  const int64_t inner = walk.counts.back();
  int64_t runs = 1;
  for (size_t d = 0; d < loops; ++d) runs *= walk.counts[d];
  if (runs == 0) return;
  if (runs == 1) {
    parallel.chunks(inner, [&](int64_t first, int64_t last) {
      std::array<int64_t, 3> offsets = {0, 0, 0};
      for (size_t k = 0; k < 3; ++k) offsets[k] = first * walk.steps.back()[k];
      body(offsets, last - first);
    });
    return;
  }
  parallel(runs, inner, [&](int64_t first, int64_t last) {
    std::array<int64_t, kHighestRank> index{};
    std::array<int64_t, 3> offsets = {0, 0, 0};
    for (size_t d = loops, rest = static_cast<size_t>(first); d-- > 0;) {
      const size_t count = static_cast<size_t>(walk.counts[d]);
      index[d] = static_cast<int64_t>(rest % count);
      rest /= count;
      for (size_t k = 0; k < 3; ++k) offsets[k] += index[d] * walk.steps[d][k];
    }
    // along the innermost loop first, which needs no carry
    const std::array<int64_t, 3> step = walk.steps[loops - 1];
    for (int64_t run = first; run < last;) {
      const int64_t end = std::min(last, run + walk.counts[loops - 1] - index[loops - 1]);
      index[loops - 1] += end - run - 1;
      for (; run < end; ++run) {
        body(offsets, inner);
        for (size_t k = 0; k < 3; ++k) offsets[k] += step[k];
      }
      for (size_t k = 0; k < 3; ++k) offsets[k] -= step[k];
      for (size_t d = loops; d-- > 0;) {
        for (size_t k = 0; k < 3; ++k) offsets[k] += walk.steps[d][k];
        if (++index[d] < walk.counts[d]) break;
        for (size_t k = 0; k < 3; ++k) offsets[k] -= walk.counts[d] * walk.steps[d][k];
        index[d] = 0;
      }
    }
  });
}

using ByteTable = std::array<uint8_t, 256>;

// Copies to[to_offset + sum(i[d] * to_strides[d])] = from[from_offset + sum(i[d] *
// from_strides[d])] for all indices i of shape. Offsets and strides are in elements.
struct CopyTerms {
  std::vector<int64_t> shape;
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;
  int64_t from_offset = 0;
  int64_t to_offset = 0;
  size_t element_size = 1;         // bytes: 1, 2 or 4; 1 with a table
  std::optional<ByteTable> table;  // maps each byte
};

class StridedCopy {
 public:
  explicit StridedCopy(const CopyTerms& terms);
  // from: the tensor. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;

 private:
  template <typename T>
  void run_typed(const std::byte* from, std::byte* to, const Parallel& parallel) const;

  Walk walk_;
  int64_t from_offset_, to_offset_;
  size_t element_size_;
  std::optional<ByteTable> table_;
};

// Rotary position embeddings of floats: y = x * cosine + (-second half of x, first half of x) *
// sine. The two halves of a row hold the coordinates of points, which are rotated.
class Rotary {
 public:
  // shape: of x and y, rows last. factor_strides: of cosine and sine, 0 where they repeat. Elements
  // of a row are contiguous.
  Rotary(const std::vector<int64_t>& shape, const std::vector<int64_t>& x_strides,
         const std::vector<int64_t>& factor_strides, const std::vector<int64_t>& y_strides);
  // from: x, cosine, sine. y must not alias x. Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;

 private:
  Walk walk_;  // over the first halves
};

}  // namespace octet
