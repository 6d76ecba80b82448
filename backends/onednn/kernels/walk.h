// Loops over the elements of up to three tensors in memory.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "backends/onednn/form.h"
#include "backends/onednn/kernels/isa.h"

namespace octet::onednn {

// A walk over up to three tensors of one shape: the innermost run, and loops around it.
// Neighbouring dimensions that continue each other in all tensors are one.
struct Walk {
  std::vector<int64_t> counts;                // innermost last
  std::vector<std::array<int64_t, 3>> steps;  // per dimension, elements
};

// `y`, `a` and `b` are the strides; the innermost run is that of y.
Walk plan_walk(const Dims& shape, const Dims& y, const Dims& a, const Dims& b);

// Calls body(offsets, count) for each innermost run, or for parts of it when there is only one. All
// threads take part.
template <typename Body>
void for_each_run(const Walk& walk, const Body& body) {
  const size_t loops = walk.counts.size() - 1;
  const int64_t inner = walk.counts.back();
  int64_t runs = 1;
  for (size_t d = 0; d < loops; ++d) runs *= walk.counts[d];
  if (runs == 1) {
    for_chunks(inner, [&](int64_t first, int64_t last) {
      std::array<int64_t, 3> offsets = {0, 0, 0};
      for (size_t k = 0; k < 3; ++k) offsets[k] = first * walk.steps.back()[k];
      body(offsets, last - first);
    });
    return;
  }
  for_parts(runs, inner, [&](int64_t first, int64_t last) {
    for (int64_t run = first; run < last; ++run) {
      std::array<int64_t, 3> offsets = {0, 0, 0};
      int64_t rest = run;
      for (size_t d = loops; d-- > 0;) {
        const int64_t position = rest % walk.counts[d];
        rest /= walk.counts[d];
        for (size_t k = 0; k < 3; ++k) offsets[k] += position * walk.steps[d][k];
      }
      body(offsets, inner);
    }
  });
}

}  // namespace octet::onednn
