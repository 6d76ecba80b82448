#include "backends/onednn/bytes/output.h"

#include <numeric>

namespace octet::onednn {

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
