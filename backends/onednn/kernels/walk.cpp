// The plan of a walk.
#include "backends/onednn/kernels/walk.h"

#include <algorithm>

namespace octet::onednn {

Walk plan_walk(const Dims& shape, const Dims& y, const Dims& a, const Dims& b) {
  std::vector<size_t> order;
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t p, size_t q) { return y[p] > y[q]; });
  Walk walk;
  for (size_t i : order) {
    const std::array<int64_t, 3> step = {y[i], a[i], b[i]};
    if (!walk.counts.empty()) {
      std::array<int64_t, 3>& outer = walk.steps.back();
      bool continues = true;
      for (size_t k = 0; k < 3; ++k) continues = continues && outer[k] == step[k] * shape[i];
      if (continues) {
        walk.counts.back() *= shape[i];
        outer = step;
        continue;
      }
    }
    walk.counts.push_back(shape[i]);
    walk.steps.push_back(step);
  }
  if (walk.counts.empty()) {
    walk.counts.push_back(1);
    walk.steps.push_back({1, 1, 1});
  }
  return walk;
}

}  // namespace octet::onednn
