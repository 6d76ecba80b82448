// Emits convolutions. Integer arithmetic folds all scales into one per output channel and works in
// output steps.
#include <tuple>

#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/bytes/conv.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/byte_conv.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/emit/post_ops.h"
#include "backends/onednn/kernels/vnni_conv.h"
#include "backends/onednn/library.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

// Dimensions and strides of the weights in oneDNN's order: [groups,] O, I, spatial.
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

dnnl::memory::desc any_layout(const dnnl::memory::desc& desc, ElementType type) {
  return dnnl::memory::desc(desc.get_dims(), type, dnnl::memory::format_tag::any);
}

// An integer convolution whose float result is only added to a dequantized tensor and quantized:
// q(clamp(conv + dq(r))), computed in integers. The convolution's result is in steps of r, so that
// r is the operand of a post-op; the conversion to output steps comes last.
struct Residual {
  std::vector<Follower> followers;
  Stored r;
  QuantParams y;
};

std::optional<Residual> find_residual(const SegmentBuilder& builder, const ProgramOp& op,
                                      const Arithmetic& plan, const Dims& order) {
  Residual residual{find_followers(builder, op), {}, {}};
  if (!plan.is_integer || clamp_of(op).is_needed() || residual.followers.size() < 2)
    return std::nullopt;
  residual.followers.resize(2);
  if (residual.followers[0].kind != Follower::Kind::kAdd ||
      residual.followers[1].kind != Follower::Kind::kQuantize)
    return std::nullopt;
  const Stored* r = builder.find_integers(residual.followers[0].other);
  if (r == nullptr || r->shape != builder.tensor(op.outputs[0]).shape ||
      !same_strides(r->shape, r->strides, order))
    return std::nullopt;
  residual.r = *r;
  residual.y = builder.output_quant_params(residual.followers[1].op->outputs[0]);
  return residual;
}

void append_residual(SegmentBuilder& builder, const Residual& residual,
                     dnnl::primitive_attr& attributes, std::vector<Argument>& arguments) {
  dnnl::post_ops post_ops;
  post_ops.append_binary(dnnl::algorithm::binary_add, residual.r.desc());
  arguments.push_back(
      {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, residual.r.desc(), residual.r.place});
  append_clamp(post_ops, clamp_of(*residual.followers[0].op), residual.y,
               residual.r.quant_params.scale);
  attributes.set_post_ops(post_ops);
  add_scale(builder, DNNL_ARG_DST, residual.y.scale / residual.r.quant_params.scale, attributes,
            arguments);
  add_zero_point(builder, DNNL_ARG_DST, residual.y.zero_point, attributes, arguments);
}

template <typename PrimitiveDesc>
struct Convolution {
  PrimitiveDesc desc;
  Arithmetic plan;
  std::vector<Argument> arguments;
  QuantParams written;
};

template <typename Primitive, typename Algorithm>
void emit_convolution(SegmentBuilder& builder, const ProgramOp& op, Algorithm algorithm,
                      bool transposed) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& wt = builder.tensor(op.inputs[1]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const int64_t groups = op.get(attr::kGroups);
  const Geometry g = conv_geometry(op, xt.shape, wt.shape, yt.shape, transposed);
  const bool fold_zero_point = !g.is_padded && !transposed;
  const int64_t channels = transposed ? wt.shape[1] * groups : wt.shape[0];
  const Arithmetic plan = plan_arithmetic(builder, op, channels, fold_zero_point);

  const Stored x = convert(builder, builder.read(op.inputs[0]), plan.x, channels_last(xt.shape));
  const dnnl::memory::desc w = conv_weights(wt.shape, groups, transposed,
                                            plan.is_integer ? ElementType::s8 : ElementType::f32);
  const char* what = transposed ? "transposed convolution" : "convolution";
  const auto plan_convolution = [&](const Residual* residual, std::span<const Follower> followers) {
    Convolution<typename Primitive::primitive_desc> conv;
    conv.plan = residual == nullptr ? plan : in_steps_of(residual->r.quant_params, plan, channels);
    conv.written = residual == nullptr ? plan.y : residual->y;
    const int mask = plan.scale.size() <= 1 ? 0 : groups > 1 ? 3 : 1;
    dnnl::primitive_attr attributes =
        integer_attributes(builder, conv.plan, mask, fold_zero_point, clamp_of(op), conv.arguments);
    if (residual != nullptr) append_residual(builder, *residual, attributes, conv.arguments);
    if (!followers.empty())
      conv.written = append_followers(builder, followers, yt.shape, channels_last(yt.shape),
                                      attributes, conv.arguments);
    conv.written = result_form(builder, op, followers, plan.x, conv.written);
    const dnnl::memory::desc bias =
        conv.plan.bias.empty()
            ? dnnl::memory::desc()
            : dnnl::memory::desc({channels}, ElementType::f32, dnnl::memory::dims{1});
    const dnnl::memory::desc y(yt.shape, conv.written.type, channels_last(yt.shape));
    conv.desc = typename Primitive::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, algorithm, x.desc(),
        any_layout(w, plan.is_integer ? ElementType::s8 : plan.x.type), bias, y, g.stride,
        g.dilation, g.padding_begin, g.padding_end, attributes);
    refuse_reference_kernel(what, conv.desc.impl_info_str());
    return conv;
  };
  std::optional<Convolution<typename Primitive::primitive_desc>> planned;
  std::vector<Follower> followers;
  if (const std::optional<Residual> residual =
          find_residual(builder, op, plan, channels_last(yt.shape))) {
    try {
      planned = plan_convolution(&*residual, {});
      followers = residual->followers;
    } catch (const dnnl::error&) {  // oneDNN has no kernel that adds these integers
    } catch (const Refusal&) {      // or only a slow reference kernel: add in floats below
    }
  }
  if (!planned) {
    followers = find_followers(builder, op);
    size_t count = 0;
    std::tie(planned, count) = plan_with_most_followers(
        followers, [&](std::span<const Follower> some) { return plan_convolution(nullptr, some); });
    followers.resize(count);
  }
  Convolution<typename Primitive::primitive_desc>& conv = *planned;
  const int output = absorb_followers(builder, op, followers);

  const Stored y = builder.allocate(yt.shape, conv.written, channels_last(yt.shape));
  if (!conv.plan.bias.empty()) {
    const Stored values = builder.add_floats(conv.plan.bias);
    conv.arguments.push_back({DNNL_ARG_BIAS, values.desc(), values.place});
  }
  conv.arguments.push_back({DNNL_ARG_WEIGHTS, conv.desc.weights_desc(),
                            pack_weights(builder, op.inputs[1], w, conv.desc.weights_desc())});
  conv.arguments.push_back({DNNL_ARG_SRC, x.desc(), x.place});
  conv.arguments.push_back({DNNL_ARG_DST, y.desc(), y.place});
  builder.add_primitive(what, conv.desc, std::move(conv.arguments));
  if (plan.is_integer || !followers.empty()) {
    builder.define(output, y);
  } else {
    define_real(builder, output, y);
  }
}

ByteWindowShape window_shape(const Dims& x, const Dims& w, const Dims& y, const Geometry& g) {
  return {x[0],
          x[1],
          w[0],
          x[2],
          x[3],
          y[2],
          y[3],
          w[2],
          w[3],
          g.stride[0],
          g.stride[1],
          g.padding_begin[0],
          g.padding_begin[1]};
}

// Emits one of the custom AVX512-VNNI kernels, for undilated two-dimensional kernels on bytes with
// one channel per group or few channels in total. Returns false for other convolutions.
bool emit_by_vnni_kernel(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& x = builder.tensor(op.inputs[0]).shape;
  const Dims& w = builder.tensor(op.inputs[1]).shape;
  const Dims& y = builder.tensor(op.outputs[0]).shape;
  const int64_t groups = op.get(attr::kGroups), outputs = w[0];
  if (x.size() != 4) return false;
  const Geometry g = conv_geometry(op, x, w, y, false);
  const ByteWindowShape shape = window_shape(x, w, y, g);
  const bool is_depthwise =
      groups > 1 && groups == x[1] && groups == outputs && has_depthwise_kernel(shape);
  const bool is_image = groups == 1 && has_image_conv_kernel(shape);
  if (g.dilation[0] != 0 || g.dilation[1] != 0 || (!is_depthwise && !is_image)) return false;

  Arithmetic plan = plan_arithmetic(builder, op, outputs, true);  // padding is bytes here too
  if (!plan.is_integer) return false;
  std::optional<Residual> residual;
  if (!plan.y.is_integer() && is_image && takes_residual(shape))
    residual = find_residual(builder, op, plan, channels_last(y));
  if (residual && residual->r.quant_params.type != ElementType::u8) return false;
  const QuantParams written = residual ? residual->y : plan.y;
  if (!written.is_integer()) return false;
  const std::optional<ByteScales> scales =
      byte_scales(plan, written, clamp_of(residual ? *residual->followers[0].op : op),
                  residual ? &residual->r.quant_params : nullptr, w);
  if (!scales) return false;
  const int output =
      absorb_followers(builder, op, residual ? residual->followers : std::vector<Follower>());
  const Stored from = convert(builder, builder.read(op.inputs[0]), plan.x, channels_last(x));
  const Stored to = builder.allocate(y, written, channels_last(y));
  const Tensor& weights = builder.tensor(op.inputs[1]).data;
  if (is_depthwise) {
    builder.add_loop("depthwise convolution", depthwise_loop(shape, weights, *scales),
                     {from.place, to.place});
  } else {
    std::vector<Place> places = {from.place, to.place};
    if (residual) places.push_back(residual->r.place);
    builder.add_loop(image_conv_name(shape),
                     image_conv_loop(shape, weights, *scales, residual.has_value()), places);
  }
  builder.define(output, to);
  return true;
}

// Whether emit_by_vnni_kernel would take the op on a CPU with AVX512-VNNI. Requires integer
// arithmetic.
bool is_fused_with_vnni(SegmentBuilder& builder, const ProgramOp& op, const Geometry& g) {
  const Dims& x = builder.tensor(op.inputs[0]).shape;
  const Dims& w = builder.tensor(op.inputs[1]).shape;
  const Dims& y = builder.tensor(op.outputs[0]).shape;
  const int64_t groups = op.get(attr::kGroups);
  if (x.size() != 4 || g.dilation[0] != 0 || g.dilation[1] != 0) return false;
  const ByteWindowShape shape = window_shape(x, w, y, g);
  const bool is_depthwise =
      groups > 1 && groups == x[1] && groups == w[0] && fits_depthwise_kernel(shape);
  const bool is_image = groups == 1 && fits_image_conv_kernel(shape);
  if (builder.output_quant_params(op.outputs[0]).is_integer()) return is_depthwise || is_image;
  return is_image && takes_residual(shape);
}

// Emits byte tiles on CPUs where they are the best kernels; false for floats.
bool emit_by_byte_tiles(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& x = builder.tensor(op.inputs[0]).shape;
  const Dims& w = builder.tensor(op.inputs[1]).shape;
  const Dims& y = builder.tensor(op.outputs[0]).shape;
  const Geometry g = conv_geometry(op, x, w, y, false);
  const int64_t groups = op.get(attr::kGroups), outputs = w[0];
  ByteConvShape shape{x[0],
                      groups,
                      w[1],
                      outputs / groups,
                      spatial(x, 2, 1),
                      spatial(y, 2, 1),
                      spatial(w, 2, 1),
                      spatial(g.stride, 0, 1),
                      spatial(g.dilation, 0, 0),
                      spatial(g.padding_begin, 0, 0)};
  for (int64_t& dilation : shape.dilation) ++dilation;
  const bool is_depthwise = has_byte_depthwise(shape);
  if (!is_depthwise && !has_byte_conv(shape)) return false;

  // As on AVX512-VNNI: fused if a custom kernel runs there, else with oneDNN's rounding.
  const bool is_fused = is_fused_with_vnni(builder, op, g);
  const bool folds = is_fused || !g.is_padded;
  const Arithmetic plan = plan_arithmetic(builder, op, outputs, folds, Sums::kExact);
  if (!plan.is_integer) return false;
  std::optional<Residual> residual;
  if (!plan.y.is_integer() && !is_depthwise)
    residual = find_residual(builder, op, plan, channels_last(y));
  if (residual && residual->r.quant_params.type != ElementType::u8) residual.reset();
  const QuantParams written = residual ? residual->y : plan.y;
  std::optional<ByteConvOutput> output =
      byte_output(plan, written, clamp_of(residual ? *residual->followers[0].op : op),
                  residual ? &residual->r.quant_params : nullptr, w, is_fused);
  if (!output) return false;
  const int target = absorb_followers(
      builder, op,
      residual ? std::span<const Follower>(residual->followers) : std::span<const Follower>());
  const Stored from = convert(builder, builder.read(op.inputs[0]), plan.x, channels_last(x));
  const Stored to = builder.allocate(y, written, channels_last(y));
  const Tensor& weights = builder.tensor(op.inputs[1]).data;
  if (!folds) output->start = zero_point_start(plan.x.zero_point, weights);
  if (is_depthwise) {
    add_byte_depthwise(builder, shape, weights, *output, from.place, to.place);
  } else {
    add_byte_conv(builder, "convolution", shape, weights, *output,
                  {builder.saturation().highest_byte(op.inputs[0]), output->scales.padding},
                  from.place, to.place, residual ? &residual->r.place : nullptr);
  }
  define_result(builder, target, to);
  return true;
}

}  // namespace

void emit_conv(SegmentBuilder& builder, const ProgramOp& op) {
  if (emit_by_vnni_kernel(builder, op) || emit_by_byte_tiles(builder, op)) return;
  emit_convolution<dnnl::convolution_forward>(builder, op, dnnl::algorithm::convolution_direct,
                                              false);
}

void emit_conv_transpose(SegmentBuilder& builder, const ProgramOp& op) {
  if (emit_transposed_by_byte_tiles(builder, op)) return;
  emit_convolution<dnnl::deconvolution_forward>(builder, op, dnnl::algorithm::deconvolution_direct,
                                                true);
}

}  // namespace octet::onednn
