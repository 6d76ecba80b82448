// Convolutions. Integer arithmetic has every scale folded into one per output channel, and works in output steps.
#include <algorithm>

#include <fmt/format.h>

#include "backends/onednn/onednn_library.h"
#include "backends/onednn/onednn_ops.h"
#include "core/error.h"

namespace octet::onednn {
namespace {

int64_t conv_channel(int64_t index, const Dims& shape, int64_t) { return index / (product(shape) / shape[0]); }

// Of w [C, O/groups, spatial].
int64_t conv_transpose_channel(int64_t index, const Dims& shape, int64_t groups) {
  const int64_t spatial = product(shape) / (shape[0] * shape[1]);
  const int64_t group = index / spatial / shape[1] / (shape[0] / groups);
  return group * shape[1] + index / spatial % shape[1];
}

// Dimensions and strides of the weights as oneDNN names them: [groups,] O, I, spatial.
dnnl::memory::desc conv_weights(const Dims& w, int64_t groups, bool transposed, ElementType type) {
  const Dims strides = row_major(w);
  Dims dims;
  Dims steps;
  if (groups > 1) {
    dims.push_back(groups);
    steps.push_back(strides[0] * (w[0] / groups));
  }
  if (transposed) {
    dims.insert(dims.end(), {w[1], w[0] / groups});
    steps.insert(steps.end(), {strides[1], strides[0]});
  } else {
    dims.insert(dims.end(), {w[0] / groups, w[1]});
    steps.insert(steps.end(), {strides[0], strides[1]});
  }
  dims.insert(dims.end(), w.begin() + 2, w.end());
  steps.insert(steps.end(), strides.begin() + 2, strides.end());
  return dnnl::memory::desc(dims, type, steps);
}

dnnl::memory::desc any_layout(const dnnl::memory::desc& desc) {
  return dnnl::memory::desc(desc.get_dims(), desc.get_data_type(), dnnl::memory::format_tag::any);
}

struct Geometry {
  Dims stride;
  Dims dilation;  // as oneDNN counts: 0 is dense
  Dims padding_begin;
  Dims padding_end;
  bool is_padded = false;
};

Geometry conv_geometry(const ProgramOp& op, const Dims& x, const Dims& w, const Dims& y, bool transposed) {
  const size_t spatial = x.size() - 2;
  Geometry g;
  g.stride = op.integers("stride", Dims(spatial, 1));
  g.padding_begin = op.integers("padding", Dims(spatial, 0));
  g.dilation = op.integers("dilation", Dims(spatial, 1));
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t reach = g.dilation[i] * (w[i + 2] - 1) + 1;
    const int64_t end = transposed ? (x[i + 2] - 1) * g.stride[i] - g.padding_begin[i] + reach - y[i + 2]
                                   : (y[i + 2] - 1) * g.stride[i] + reach - x[i + 2] - g.padding_begin[i];
    g.padding_end.push_back(end);
    g.is_padded = g.is_padded || g.padding_begin[i] > 0 || end > 0;
    g.dilation[i] -= 1;
  }
  return g;
}

// The weights as the kernel wants them: packed from the Program's constant, or from real values.
Argument packed_weights(SegmentBuilder& builder, const ProgramOp& op, const Arithmetic& plan, const dnnl::memory::desc& plain,
                        const dnnl::memory::desc& packed) {
  const Tensor data = builder.tensor(op.inputs[1]).data.contiguous();
  const void* source = plan.is_integer ? static_cast<const void*>(data.raw()) : plan.real_weights.data();
  return {DNNL_ARG_WEIGHTS, packed, builder.add_packed(plain, source, packed)};
}

template <typename Primitive, typename Algorithm>
void emit_convolution(SegmentBuilder& builder, const ProgramOp& op, Algorithm algorithm, bool transposed) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& wt = builder.tensor(op.inputs[1]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const int64_t groups = op.integer("groups", 1);
  const Geometry g = conv_geometry(op, xt.shape, wt.shape, yt.shape, transposed);
  const bool fold_zero_point = !g.is_padded && !transposed;
  const int64_t channels = transposed ? wt.shape[1] * groups : wt.shape[0];
  const Arithmetic plan = plan_arithmetic(builder, op, channels, fold_zero_point, transposed ? conv_transpose_channel : conv_channel);

  const Stored x = builder.convert(builder.read(op.inputs[0]), plan.x, channels_last(xt.shape));
  const Stored y = builder.allocate(yt.shape, plan.y, channels_last(yt.shape));
  const dnnl::memory::desc w = conv_weights(wt.shape, groups, transposed, plan.is_integer ? ElementType::s8 : ElementType::f32);
  std::vector<Argument> arguments;
  const int mask = groups > 1 ? 3 : 1;
  const dnnl::primitive_attr attributes =
      integer_attributes(builder, plan, plan.scale.size() > 1 ? mask : 0, fold_zero_point, clamp_of(op), arguments);

  dnnl::memory::desc bias;
  if (!plan.bias.empty()) {
    const Stored values = builder.add_floats(plan.bias);
    bias = values.desc();
    arguments.push_back({DNNL_ARG_BIAS, bias, values.place});
  }
  const typename Primitive::primitive_desc desc(cpu_engine(), dnnl::prop_kind::forward_inference, algorithm, x.desc(), any_layout(w), bias, y.desc(),
                                                g.stride, g.dilation, g.padding_begin, g.padding_end, attributes);
  arguments.push_back(packed_weights(builder, op, plan, w, desc.weights_desc()));
  arguments.push_back({DNNL_ARG_SRC, x.desc(), x.place});
  arguments.push_back({DNNL_ARG_DST, y.desc(), y.place});
  SegmentBuilder::refuse_reference_kernel(transposed ? "transposed convolution" : "convolution", desc.impl_info_str());
  builder.add_primitive(transposed ? "transposed convolution" : "convolution", desc, std::move(arguments));
  if (plan.is_integer) {
    builder.define(op.outputs[0], y);
  } else {
    define_real(builder, op.outputs[0], y);
  }
}

}  // namespace

void emit_conv(SegmentBuilder& builder, const ProgramOp& op) {
  emit_convolution<dnnl::convolution_forward>(builder, op, dnnl::algorithm::convolution_direct, false);
}

void emit_conv_transpose(SegmentBuilder& builder, const ProgramOp& op) {
  emit_convolution<dnnl::deconvolution_forward>(builder, op, dnnl::algorithm::deconvolution_direct, true);
}

}  // namespace octet::onednn
