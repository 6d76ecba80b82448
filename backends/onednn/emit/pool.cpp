// Emits pooling and means. Maxima use oneDNN; averages use custom loops, which support any zero
// points and change the scale as they store results.
#include <algorithm>

#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/kernels/pool.h"
#include "backends/onednn/library.h"
#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet::onednn {
namespace {

// Views [N, C, W] as [N, C, 1, 1, W], with three spatial axes.
Stored with_three_axes(const Stored& stored) {
  Stored wide = stored;
  while (wide.shape.size() < 5) {
    wide.shape.insert(wide.shape.begin() + 2, 1);
    wide.strides.insert(wide.strides.begin() + 2, 1);
  }
  wide.strides = channels_last(wide.shape);
  return wide;
}

// The attributes of a pooling op, one number per spatial axis.
struct PoolAttributes {
  Dims kernel, stride, padding, dilation;
  PoolAttributes(const ProgramOp& op, size_t axes)
      : kernel(op.get(attr::kKernelSize)),
        stride(op.get(attr::kStride, kernel)),
        padding(op.get(attr::kPadding, Dims(axes, 0))),
        dilation(op.get(attr::kDilation, Dims(axes, 1))) {}
};

// The window of each output position, one list per spatial axis.
std::vector<std::vector<Window>> windows_of(const PoolAttributes& pool, const Dims& in,
                                            const Dims& out, bool counts_padding) {
  std::vector<std::vector<Window>> windows(in.size() - 2);
  for (size_t i = 0; i < windows.size(); ++i) {
    for (int64_t o = 0; o < out[i + 2]; ++o) {
      const int64_t first = o * pool.stride[i] - pool.padding[i];
      const int64_t last = std::min(first + pool.kernel[i], in[i + 2] + pool.padding[i]);
      const int64_t begin = std::max<int64_t>(first, 0);
      const int64_t end = std::min(last, in[i + 2]);
      windows[i].push_back({begin, end, counts_padding ? last - first : end - begin});
    }
  }
  return windows;
}

void to_three_axes(const std::vector<std::vector<Window>>& spatial,
                   std::vector<Window> (&windows)[3]) {
  for (size_t axis = 0; axis < 3; ++axis) {
    const size_t missing = 3 - spatial.size();
    windows[axis] = axis < missing ? std::vector<Window>{{0, 1, 1}} : spatial[axis - missing];
  }
}

// Averages over windows of the last `spatial.size()` axes; leading axes have a single position.
void emit_average(SegmentBuilder& builder, const ProgramOp& op, const Dims& shape,
                  const std::vector<std::vector<Window>>& spatial, int64_t divisor) {
  const Stored x0 = builder.read(op.inputs[0]);
  const Stored x = convert(builder, x0, as_unsigned(x0.quant_params), channels_last(x0.shape));
  const Stored y =
      builder.allocate(shape, builder.output_quant_params(op.outputs[0]), channels_last(shape));
  std::vector<Window> windows[3];
  to_three_axes(spatial, windows);
  builder.add_loop(
      "average",
      average_loop(with_three_axes(x), with_three_axes(y), windows, divisor, clamp_of(op)),
      {x.place, y.place});
  builder.define(op.outputs[0], y);
}

}  // namespace

void emit_max_pool(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& in = builder.tensor(op.inputs[0]).shape;
  const Dims& out = builder.tensor(op.outputs[0]).shape;
  PoolAttributes pool(op, in.size() - 2);
  Dims end;
  for (size_t i = 0; i < pool.kernel.size(); ++i) {
    end.push_back((out[i + 2] - 1) * pool.stride[i] + pool.dilation[i] * (pool.kernel[i] - 1) + 1 -
                  in[i + 2] - pool.padding[i]);
    pool.dilation[i] -= 1;  // oneDNN counts the skipped elements
  }
  const Stored x0 = builder.read(op.inputs[0]);
  const Stored x = convert(builder, x0, as_unsigned(x0.quant_params), channels_last(in));
  const Stored y = builder.allocate(out, x.quant_params, channels_last(out));
  if (x.quant_params.type == ElementType::u8 &&
      std::all_of(pool.dilation.begin(), pool.dilation.end(), [](int64_t d) { return d == 0; })) {
    std::vector<Window> windows[3];
    to_three_axes(windows_of(pool, in, out, false), windows);
    builder.add_loop("max_pool", maximum_loop(with_three_axes(x), with_three_axes(y), windows),
                     {x.place, y.place});
    builder.define(op.outputs[0], to_dense(builder, y, builder.output_quant_params(op.outputs[0])));
    return;
  }
  const dnnl::pooling_forward::primitive_desc desc(
      cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max, x.desc(),
      y.desc(), pool.stride, pool.kernel, pool.dilation, pool.padding, end, new_attributes());
  builder.add_primitive("max_pool", desc,
                        {{DNNL_ARG_SRC, x.desc(), x.place}, {DNNL_ARG_DST, y.desc(), y.place}});
  define_real(builder, op.outputs[0], y);
}

void emit_avg_pool(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& in = builder.tensor(op.inputs[0]).shape;
  const Dims& out = builder.tensor(op.outputs[0]).shape;
  const PoolAttributes pool(op, in.size() - 2);
  const bool counts_padding = op.get(attr::kCountIncludePad);
  emit_average(builder, op, out, windows_of(pool, in, out, counts_padding),
               op.get(attr::kDivisorOverride));
}

void emit_adaptive_avg_pool(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& in = builder.tensor(op.inputs[0]).shape;
  const Dims& out = builder.tensor(op.outputs[0]).shape;
  std::vector<std::vector<Window>> windows(in.size() - 2);
  for (size_t i = 0; i < windows.size(); ++i) {
    for (int64_t o = 0; o < out[i + 2]; ++o) {
      const int64_t begin = o * in[i + 2] / out[i + 2];
      const int64_t end = ((o + 1) * in[i + 2] + out[i + 2] - 1) / out[i + 2];
      windows[i].push_back({begin, end, end - begin});
    }
  }
  emit_average(builder, op, out, windows, 0);
}

// Over all spatial axes: an average. Over other axes: oneDNN's reduction in floats.
void emit_mean(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const Dims& in = xt.shape;
  Dims reduced = in;
  std::vector<char> is_reduced(in.size());
  for (int64_t dim : op.get(attr::kDims)) {
    const size_t d = static_cast<size_t>(wrap_dim(dim, in.size()));
    reduced[d] = 1;
    is_reduced[d] = true;
  }
  bool is_spatial = in.size() >= 3 && in.size() <= 5 && !is_reduced[0] && !is_reduced[1];
  for (size_t d = 2; d < in.size(); ++d) is_spatial = is_spatial && is_reduced[d];
  if (is_spatial) {
    std::vector<std::vector<Window>> windows;
    for (size_t d = 2; d < in.size(); ++d) windows.push_back({{0, in[d], in[d]}});
    emit_average(builder, op, reduced, windows, 0);
  } else {
    const Stored x = to_real(builder, op.inputs[0], row_major(in));
    const Stored y = builder.allocate(reduced, {}, row_major(reduced));
    const dnnl::reduction::primitive_desc desc(cpu_engine(), dnnl::algorithm::reduction_mean,
                                               x.desc(), y.desc(), 0.0f, 0.0f,
                                               clamp_attributes(op));
    builder.add_primitive("mean", desc,
                          {{DNNL_ARG_SRC, x.desc(), x.place}, {DNNL_ARG_DST, y.desc(), y.place}});
    define_real(builder, op.outputs[0], y);
  }
  const Stored kept = convert(builder, builder.read(op.outputs[0]),
                              builder.read(op.outputs[0]).quant_params, row_major(reduced));
  builder.define(op.outputs[0], {kept.place, kept.quant_params, yt.shape, row_major(yt.shape)});
}

}  // namespace octet::onednn
