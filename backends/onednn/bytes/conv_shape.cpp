// Shapes of linear layers and 1x1 convolutions.
#include "backends/onednn/bytes/conv_shape.h"

namespace octet::onednn {

ByteConvShape linear_shape(int64_t rows, int64_t in, int64_t out) {
  ByteConvShape shape;
  shape.channels = in;
  shape.outputs = out;
  shape.size[2] = shape.out_size[2] = rows;
  return shape;
}

bool is_pointwise(const ByteConvShape& s) {
  constexpr std::array<int64_t, 3> kOnes = {1, 1, 1}, kZeros = {0, 0, 0};
  return s.groups == 1 && s.kernel == kOnes && s.stride == kOnes && s.padding == kZeros &&
         s.size == s.out_size && s.y_size == kZeros;
}

ByteConvShape with_long_rows(ByteConvShape s) {
  if (!is_pointwise(s)) return s;
  s.size = {1, 1, s.batch * s.size[0] * s.size[1] * s.size[2]};
  s.out_size = s.size;
  s.batch = 1;
  return s;
}

}  // namespace octet::onednn
