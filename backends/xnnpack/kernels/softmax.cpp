// See the header.
#include "backends/xnnpack/kernels/softmax.h"

#include <algorithm>
#include <cmath>

#include "backends/xnnpack/kernels/copy.h"
#include "core/base/error.h"

namespace octet::xnnpack {
namespace {

void run_row(const ByteSoftmax& s, const int8_t* from, int8_t* to) {
  int greatest = -128;
  for (int64_t i = 0; i < s.size; ++i) greatest = std::max<int>(greatest, from[i * s.from_step]);
  double sum = 0;
  for (int64_t i = 0; i < s.size; ++i)
    sum += s.exponentials[static_cast<size_t>(greatest - from[i * s.from_step])];
  const double factor = s.inverse_scale / sum;
  for (int64_t i = 0; i < s.size; ++i) {
    const double step =
        std::nearbyint(s.exponentials[static_cast<size_t>(greatest - from[i * s.from_step])] *
                       factor) +
        s.zero_point;
    to[i * s.to_step] = static_cast<int8_t>(std::clamp(step, -128.0, 127.0));
  }
}

}  // namespace

ByteSoftmax byte_softmax(float input_scale, float output_scale, int32_t output_zero_point) {
  ByteSoftmax softmax;
  for (size_t below = 0; below < softmax.exponentials.size(); ++below)
    softmax.exponentials[below] = std::exp(-double{input_scale} * static_cast<double>(below));
  softmax.inverse_scale = 1 / double{output_scale};
  softmax.zero_point = output_zero_point;
  return softmax;
}

void run(const ByteSoftmax& s, const std::byte* from, std::byte* to) {
  OCTET_ASSERT(s.shape.size() <= kHighestRank, "a softmax of another rank");
  const int8_t* in = reinterpret_cast<const int8_t*>(from);
  int8_t* out = reinterpret_cast<int8_t*>(to);
  std::array<int64_t, kHighestRank> index{};
  for (;;) {
    run_row(s, in, out);
    size_t d = s.shape.size();
    for (;; --d) {
      if (d == 0) return;
      in += s.from_strides[d - 1];
      out += s.to_strides[d - 1];
      if (++index[d - 1] < s.shape[d - 1]) break;
      in -= s.from_strides[d - 1] * s.shape[d - 1];
      out -= s.to_strides[d - 1] * s.shape[d - 1];
      index[d - 1] = 0;
    }
  }
}

}  // namespace octet::xnnpack
