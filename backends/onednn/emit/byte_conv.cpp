// Folds scales, zero points and clamps for the byte kernels, allocates their scratch memory, and
// adds their loops.
#include "backends/onednn/emit/byte_conv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace octet::onednn {
namespace {

// Stands for the loop when proving, which does not pack weights.
void add_empty_loop(SegmentBuilder& builder, const char* what, const Place& x, const Place& y) {
  builder.add_loop(what, [](std::byte* const*) {}, {x, y});
}

Place allocate_scratch(SegmentBuilder& builder, const ScratchLoop& loop) {
  return builder.allocate({loop.scratch_bytes}, {ElementType::u8, 1, 0}, {1}).place;
}

}  // namespace

Geometry conv_geometry(const ProgramOp& op, const Dims& x, const Dims& w, const Dims& y,
                       bool transposed) {
  const size_t spatial = x.size() - 2;
  Geometry g;
  g.stride = op.get(attr::kStride, Dims(spatial, 1));
  g.padding_begin = op.get(attr::kPadding, Dims(spatial, 0));
  g.dilation = op.get(attr::kDilation, Dims(spatial, 1));
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

std::optional<ByteScales> byte_scales(const Arithmetic& plan, const QuantParams& written,
                                      const Clamp& clamp, const QuantParams* residual,
                                      const Dims& w) {
  const size_t outputs = static_cast<size_t>(w[0]);
  const QuantParams steps = as_unsigned(written);
  const StepRange range = clamp_in_steps(steps, clamp);
  // 1, unless the plan is in real units
  const float factor = static_cast<float>(plan.unit / steps.scale);
  ByteScales scales;
  scales.scale = plan.scale;
  scales.scale.resize(outputs, plan.scale[0]);
  scales.bias = plan.bias;
  scales.bias.resize(outputs, 0.0f);
  scales.residual = residual != nullptr ? residual->scale / steps.scale : 0;
  const float offset =
      static_cast<float>(steps.zero_point) -
      (residual != nullptr ? static_cast<float>(residual->zero_point) * scales.residual : 0);
  const double most_products = 255.0 * 128.0 * static_cast<double>(product(w) / w[0]);
  for (size_t c = 0; c < outputs; ++c) {
    scales.scale[c] *= factor;
    scales.bias[c] = scales.bias[c] * factor + offset;
    if (!(std::fabs(scales.scale[c]) * most_products + std::fabs(scales.bias[c]) +
              255.0 * scales.residual <
          1e9))
      return std::nullopt;
  }
  scales.padding = static_cast<uint8_t>(plan.x.zero_point);
  scales.low = static_cast<uint8_t>(range.low);
  scales.high = static_cast<uint8_t>(range.high);
  scales.is_signed = written.type == ElementType::s8;
  return scales;
}

ByteConvOutput real_output(const Arithmetic& plan, const Clamp& clamp, size_t outputs) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ByteConvOutput output{TileOutput::kReals, {plan.scale, plan.bias}, -kInfinity, kInfinity};
  output.scales.scale.resize(outputs, plan.scale[0]);
  output.scales.bias.resize(outputs, 0.0f);
  output.scales.padding = static_cast<uint8_t>(plan.x.zero_point);
  if (clamp.min) output.low = static_cast<float>(*clamp.min);
  if (clamp.max) output.high = static_cast<float>(*clamp.max);
  return output;
}

std::optional<ByteConvOutput> byte_output(const Arithmetic& plan, const QuantParams& written,
                                          const Clamp& clamp, const QuantParams* residual,
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

void add_byte_conv(SegmentBuilder& builder, const char* what, const ByteConvShape& shape,
                   const Tensor& weights, const ByteConvOutput& output, ByteRange range,
                   const Place& x, const Place& y, const Place* residual) {
  OCTET_ASSERT(has_byte_conv(shape) &&
                   (residual != nullptr) == (output.output == TileOutput::kSum) &&
                   (shape.segments == 1 || output.output == TileOutput::kReals),
               "a shape that the kernel does not take");
  if (builder.purpose() == SegmentBuilder::Purpose::kProve)
    return add_empty_loop(builder, what, x, y);
  ScratchLoop loop = byte_conv_loop(shape, weights, output, range);
  std::vector<Place> places = {x, y};
  if (loop.scratch_bytes > 0) places.push_back(allocate_scratch(builder, loop));
  if (residual != nullptr) places.push_back(*residual);
  builder.add_loop(what, std::move(loop.loop), places, loop.kernel);
}

void add_byte_depthwise(SegmentBuilder& builder, const ByteConvShape& shape, const Tensor& weights,
                        const ByteConvOutput& output, const Place& x, const Place& y) {
  OCTET_ASSERT(has_byte_depthwise(shape), "a depthwise shape that the kernel does not take");
  constexpr const char* kWhat = "depthwise convolution";
  if (builder.purpose() == SegmentBuilder::Purpose::kProve)
    return add_empty_loop(builder, kWhat, x, y);
  ScratchLoop loop = byte_depthwise_loop(shape, weights, output);
  builder.add_loop(kWhat, std::move(loop.loop), {x, y, allocate_scratch(builder, loop)},
                   loop.kernel);
}

}  // namespace octet::onednn
