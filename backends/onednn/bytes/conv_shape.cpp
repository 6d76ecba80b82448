// Makes shapes of linear layers and 1x1 convolutions, and tiles for outputs.
#include "backends/onednn/bytes/conv_shape.h"

#include <numeric>

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

Tile tile_for(const ByteConvOutput& output) {
  Tile tile{};
  tile.residual_scale = output.scales.residual;
  tile.low = output.low;
  tile.high = output.high;
  tile.is_fused = output.is_fused;
  tile.zero_point = output.zero_point;
  tile.least = output.scales.low;
  tile.most = output.scales.high;
  tile.flip = output.scales.is_signed ? 128 : 0;
  return tile;
}

std::vector<int32_t> zero_point_start(int zero_point, const Tensor& weights) {
  const Tensor data = weights.contiguous();
  const int64_t outputs = data.shape()[0], count = data.numel() / outputs;
  std::vector<int32_t> start;
  for (int64_t o = 0; o < outputs; ++o) {
    const int8_t* values = data.data<int8_t>() + o * count;
    start.push_back(-zero_point * std::accumulate(values, values + count, 0));
  }
  return start;
}

}  // namespace octet::onednn
