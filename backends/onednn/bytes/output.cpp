#include "backends/onednn/bytes/output.h"

#include <limits>
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

ByteConvOutput real_output(const Arithmetic& plan, const Clamp& clamp, size_t outputs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ByteConvOutput output{
      TileOutput::kReals, {plan.scale, plan.bias},
       -kInfinity, kInfinity
  };
  output.scales.scale.resize(outputs, plan.scale[0]);
  output.scales.bias.resize(outputs, 0.0f);
  output.scales.padding = static_cast<uint8_t>(plan.x.zero_point);
  if (clamp.min) output.low = static_cast<float>(*clamp.min);
  if (clamp.max) output.high = static_cast<float>(*clamp.max);
  return output;
}

std::optional<ByteConvOutput> byte_output(const Arithmetic& plan, const Quantity& written,
                                          const Clamp& clamp, const Quantity* residual,
                                          const Dims& w, bool is_fused) {
  if (!written.is_integer()) return real_output(plan, clamp, static_cast<size_t>(w[0]));
  const std::optional<ByteScales> scales = byte_scales(plan, written, clamp, residual, w);
  if (!scales) return std::nullopt;
  ByteConvOutput output{residual == nullptr ? TileOutput::kBytes : TileOutput::kSum, *scales};
  if (is_fused) return output;
  const size_t outputs = static_cast<size_t>(w[0]);
  const Arithmetic steps = residual == nullptr ? plan : in_steps_of(*residual, plan, w[0]);
  output.is_fused = false;
  output.zero_point = static_cast<float>(written.zero_point);
  output.scales.scale = steps.scale;
  output.scales.scale.resize(outputs, steps.scale[0]);
  output.scales.bias = steps.bias;
  output.scales.bias.resize(outputs, 0.0f);
  if (residual != nullptr) output.scales.residual = 1.0f / (written.scale / residual->scale);
  return output;
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
