#include "backends/xnnpack/filter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

// The sizes of a filter [outer, inner, spatial], with spatial as height x width.
struct FilterShape {
  int64_t outer;
  int64_t inner;
  int64_t height;
  int64_t width;
  int64_t taps() const { return height * width; }
};

FilterShape shape_of(const ProgramTensor& w) {
  const size_t rank = w.shape.size();
  return {w.shape[0], w.shape[1], rank == 4 ? w.shape[2] : 1, rank > 2 ? w.shape.back() : 1};
}

// Copies the filter into the layout, in several steps if necessary.
void permute(const std::byte* from, std::byte* to, const FilterShape& f, FilterLayout layout,
             int64_t groups, DType dtype) {
  Shuffle shuffle{.element_size = size_of(dtype), .flip = dtype == DType::kUInt8};
  switch (layout) {
    case FilterLayout::kConvolution:
      shuffle.batch = f.outer, shuffle.rows = f.inner, shuffle.columns = f.taps();
      return run(shuffle, from, to);
    case FilterLayout::kDepthwise:
      shuffle.rows = f.outer, shuffle.columns = f.taps();
      return run(shuffle, from, to);
    case FilterLayout::
        kTransposed: {  // per group, [inputs, outputs, taps] -> [outputs, taps, inputs]
      shuffle.rows = f.outer / groups, shuffle.columns = f.inner * f.taps();
      const int64_t bytes =
          shuffle.rows * shuffle.columns * static_cast<int64_t>(shuffle.element_size);
      for (int64_t g = 0; g < groups; ++g) run(shuffle, from + g * bytes, to + g * bytes);
    }
  }
}

std::vector<size_t> filter_dims(const FilterShape& f, FilterLayout layout, int64_t groups) {
  const size_t height = static_cast<size_t>(f.height), width = static_cast<size_t>(f.width);
  switch (layout) {
    case FilterLayout::kConvolution:
      return {static_cast<size_t>(f.outer), height, width, static_cast<size_t>(f.inner)};
    case FilterLayout::kDepthwise: return {1, height, width, static_cast<size_t>(f.outer)};
    case FilterLayout::kTransposed:
      return {static_cast<size_t>(f.inner * groups), height, width,
              static_cast<size_t>(f.outer / groups)};
  }
  OCTET_ASSERT(false, "unknown layout");
}

// The real values of the bias, whatever its dtype.
std::vector<double> real_bias(const Program& program, const ProgramOp& op,
                              const std::vector<double>& product_scale) {
  std::vector<double> real(product_scale.size(), 0.0);
  if (!op.has_input(2)) return real;
  const ProgramTensor& bias = program.input(op, 2);
  const Tensor data = constant_data(bias).contiguous();
  for (size_t c = 0; c < real.size(); ++c) {
    if (bias.dtype == DType::kFloat32) {
      real[c] = data.data<float>()[c];
    } else if (bias.qparams.has_value()) {
      const size_t i = bias.qparams->scale.size() == 1 ? 0 : c;
      real[c] = double{bias.qparams->scale[i]} *
                (data.data<int32_t>()[c] - bias.qparams->zero_point.at(i));
    } else {
      real[c] = product_scale[c] * data.data<int32_t>()[c];
    }
  }
  return real;
}

uint32_t define_integer_bias(StageBuilder& builder, const ProgramOp& op, size_t channels) {
  const Program& program = builder.program();
  const TensorQParams& x = *program.input(op, 0).qparams;
  const TensorQParams& w = *program.input(op, 1).qparams;
  Quantization quantization;
  std::vector<double> product_scale(channels);
  for (size_t c = 0; c < channels; ++c)
    product_scale[c] = double{x.scale[0]} * w.scale[w.scale.size() == 1 ? 0 : c];
  quantization.scale.assign(product_scale.begin(),
                            w.scale.size() == 1 ? product_scale.begin() + 1 : product_scale.end());
  const std::vector<double> real = real_bias(program, op, product_scale);
  std::vector<int32_t> values(channels);
  for (size_t c = 0; c < channels; ++c) {
    const double q = std::nearbyint(real[c] / product_scale[c]);
    if (!(std::abs(q) <= std::numeric_limits<int32_t>::max()))
      throw Refusal("bias does not fit into int32 at scale x * scale w");
    values[c] = static_cast<int32_t>(q);
  }
  return builder.bias_s32(std::move(values), std::move(quantization));
}

}  // namespace

FilterAndBias define_filter_and_bias(StageBuilder& builder, const ProgramOp& op,
                                     FilterLayout layout, int64_t groups) {
  const ProgramTensor& w = builder.program().input(op, 1);
  const FilterShape shape = shape_of(w);
  const std::vector<size_t> dims = filter_dims(shape, layout, groups);
  const Tensor given = constant_data(w);
  const bool keeps_order = layout == FilterLayout::kConvolution &&
                           (shape.taps() == 1 || shape.inner == 1 || is_channels_last(given));
  const Tensor data = keeps_order ? given : given.contiguous();
  const std::byte* bytes = data.raw();
  std::shared_ptr<void> owner = data.storage();
  if (!keeps_order || w.dtype == DType::kUInt8) {
    // not zeroed: every byte is written
    const std::shared_ptr<std::byte[]> permuted(new std::byte[data.nbytes()]);
    if (keeps_order) {
      run({.columns = data.numel(),
           .element_size = size_of(w.dtype),
           .flip = w.dtype == DType::kUInt8},
          data.raw(), permuted.get());
    } else {
      permute(data.raw(), permuted.get(), shape, layout, groups, w.dtype);
    }
    bytes = permuted.get();
    owner = std::shared_ptr<void>(permuted, permuted.get());
  }
  Quantization quantization;
  if (w.qparams.has_value()) quantization.scale = w.qparams->scale;
  quantization.channel_dim = layout == FilterLayout::kDepthwise ? 3 : 0;
  const size_t channels = layout == FilterLayout::kDepthwise ? dims[3] : dims[0];
  FilterAndBias result{};
  result.filter = builder.filter(w.dtype, dims, bytes, std::move(owner), std::move(quantization));
  if (w.dtype == DType::kFloat32) {
    const std::vector<double> real =
        real_bias(builder.program(), op, std::vector<double>(channels, 1.0));
    result.bias = builder.bias_f32(std::vector<float>(real.begin(), real.end()));
  } else {
    result.bias = define_integer_bias(builder, op, channels);
  }
  return result;
}

FilterAndBias define_uniform_depthwise(StageBuilder& builder, const ProgramTensor& like,
                                       size_t height, size_t width, size_t channels,
                                       double weight) {
  const std::vector<size_t> dims{1, height, width, channels};
  const size_t count = height * width * channels;
  if (like.dtype == DType::kFloat32) {
    std::shared_ptr<std::vector<float>> values =
        std::make_shared<std::vector<float>>(count, static_cast<float>(weight));
    const void* data = values->data();
    return {builder.filter(DType::kFloat32, dims, data, std::move(values), {}),
            builder.bias_f32(std::vector<float>(channels))};
  }
  std::shared_ptr<std::vector<int8_t>> values =
      std::make_shared<std::vector<int8_t>>(count, int8_t{1});
  const void* data = values->data();
  const float scale = static_cast<float>(weight);
  return {builder.filter(DType::kInt8, dims, data, std::move(values), {.scale = {scale}}),
          builder.bias_s32(std::vector<int32_t>(channels),
                           {.scale = {like.qparams->scale[0] * scale}})};
}

double largest_requantization_scale(const Program& program, const ProgramOp& op) {
  const std::vector<float>& scales = program.input(op, 1).qparams->scale;
  const float largest = *std::max_element(scales.begin(), scales.end());
  return double{program.input(op, 0).qparams->scale[0]} * largest /
         program.output(op).qparams->scale[0];
}

bool takes_requantization_scales(const Program& program, const ProgramOp& op) {
  constexpr double kLeast = 0x1p-32, kMost = 256;
  const std::vector<float>& scales = program.input(op, 1).qparams->scale;
  const double ratio =
      double{program.input(op, 0).qparams->scale[0]} / program.output(op).qparams->scale[0];
  return std::all_of(scales.begin(), scales.end(), [&](float scale) {
    return std::isnormal(scale) && ratio * scale >= kLeast && ratio * scale < kMost;
  });
}

}  // namespace octet::xnnpack
