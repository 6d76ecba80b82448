#include "backends/onednn/emit/conv_geometry.h"

#include <algorithm>

namespace octet::onednn {

Geometry conv_geometry(const ProgramOp& op, const Dims& x, const Dims& w, const Dims& y,
                       bool transposed) {
  const size_t spatial = x.size() - 2;
  Geometry g;
  g.stride = op.integers("stride", Dims(spatial, 1));
  g.padding_begin = op.integers("padding", Dims(spatial, 0));
  g.dilation = op.integers("dilation", Dims(spatial, 1));
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = g.dilation[i] * (w[i + 2] - 1) + 1;
    const int64_t end = transposed
                            ? (x[i + 2] - 1) * g.stride[i] - g.padding_begin[i] + reach - y[i + 2]
                            : (y[i + 2] - 1) * g.stride[i] + reach - x[i + 2] - g.padding_begin[i];
    g.padding_end.push_back(end);
    g.is_padded = g.is_padded || g.padding_begin[i] > 0 || end > 0;
    g.dilation[i] -= 1;
  }
  return g;
}

std::array<int64_t, 3> spatial(const Dims& dims, size_t first, int64_t missing) {
  std::array<int64_t, 3> three;
  three.fill(missing);
  std::copy(dims.begin() + static_cast<std::ptrdiff_t>(first), dims.end(),
            three.end() - (std::ssize(dims) - static_cast<std::ptrdiff_t>(first)));
  return three;
}

}  // namespace octet::onednn
