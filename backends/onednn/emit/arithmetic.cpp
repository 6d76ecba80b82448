// Folds scales, zero points and biases of ops with weights before the run.
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/library.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

// Whether the weights are int8 and symmetric, as integer arithmetic requires.
bool has_integer_weights(const ProgramTensor& w) {
  if (w.dtype != DType::kInt8 || !w.qparams) return false;
  for (int32_t zero_point : w.qparams->zero_point)
    if (zero_point != 0) return false;
  return true;
}

// Sums int8 weights per output channel, the first dimension; at most 2^24 weights per channel.
std::vector<double> weight_sums(const ProgramTensor& w, int64_t channels) {
  std::vector<double> sums;
  const Tensor data = w.data.contiguous();
  const int8_t* values = data.data<int8_t>();
  const int64_t count = w.numel() / channels;
  for (int64_t c = 0; c < channels; ++c, values += count)
    sums.push_back(std::accumulate(values, values + count, 0));
  return sums;
}

}  // namespace

Arithmetic plan_arithmetic(SegmentBuilder& builder, const ProgramOp& op, int64_t channels,
                           bool fold_zero_point, Sums sums) {
  const ProgramTensor& w = builder.tensor(op.inputs[1]);
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] >= 0;
  const std::vector<float> bias =
      has_bias ? real_values(builder.tensor(op.inputs[2])) : std::vector<float>();
  Arithmetic plan;
  plan.x = as_unsigned(builder.read(op.inputs[0]).quant_params);
  plan.is_integer = plan.x.is_integer() && has_integer_weights(w) &&
                    (sums == Sums::kExact || !builder.saturation().may_saturate(op, w.data));
  if (!plan.is_integer) {
    plan.x = builder.computes_in_bfloat16(op) ? kBfloat16 : QuantParams{};
    plan.bias = bias;
    return plan;
  }
  plan.y = builder.output_quant_params(op.outputs[0]);
  plan.unit = plan.y.is_integer() ? plan.y.scale : 1.0;
  const std::vector<float>& w_scale = w.qparams->scale;
  if (w_scale.size() != 1 && channels % static_cast<int64_t>(w_scale.size()) != 0)
    throw Refusal{
        fmt::format("the weight has {} scales for {} output channels", w_scale.size(), channels)};
  for (float scale : w_scale)
    plan.scale.push_back(static_cast<float>(static_cast<double>(plan.x.scale) * scale / plan.unit));
  if (plan.scale.size() > 1)
    for (size_t i = plan.scale.size(); i < static_cast<size_t>(channels); ++i)
      plan.scale.push_back(plan.scale[i - w_scale.size()]);

  const bool folds = fold_zero_point && plan.x.zero_point != 0;
  if (!has_bias && !folds) return plan;
  const std::vector<double> of_weights =
      folds ? weight_sums(w, channels) : std::vector<double>(static_cast<size_t>(channels), 0.0);
  for (int64_t c = 0; c < channels; ++c) {
    const size_t i = static_cast<size_t>(c);
    // Round as the kernel rounds its sum times the scale, so that zeros give exact zeros; a later
    // division by a small norm would amplify anything else.
    const float of_zeros =
        plan.scale[i % plan.scale.size()] * static_cast<float>(plan.x.zero_point * of_weights[i]);
    const double real = has_bias ? bias[i] / plan.unit : 0.0;
    plan.bias.push_back(static_cast<float>(real - of_zeros));
  }
  return plan;
}

Arithmetic in_steps_of(const QuantParams& r, Arithmetic plan, int64_t channels) {
  for (float& scale : plan.scale) scale /= r.scale;
  plan.bias.resize(static_cast<size_t>(channels), 0.0f);
  for (float& bias : plan.bias) bias = bias / r.scale - static_cast<float>(r.zero_point);
  return plan;
}

Place pack_weights(SegmentBuilder& builder, int weights, const dnnl::memory::desc& plain,
                   const dnnl::memory::desc& packed) {
  const ProgramTensor& w = builder.tensor(weights);
  const bool is_as_stored = w.dtype == DType::kFloat32 || plain.get_data_type() == ElementType::s8;
  return is_as_stored ? add_packed(builder, plain, w, packed)
                      : add_packed(builder, plain, real_values(builder.tensor(weights)), packed);
}

dnnl::primitive_attr integer_attributes(SegmentBuilder& builder, const Arithmetic& plan, int mask,
                                        bool fold_zero_point, const Clamp& clamp,
                                        std::vector<Argument>& arguments) {
  dnnl::primitive_attr attributes = new_attributes();
  dnnl::post_ops post_ops;
  append_clamp(post_ops, clamp, plan.y, plan.unit);
  attributes.set_post_ops(post_ops);
  if (!plan.is_integer) return attributes;
  attributes.set_scales_mask(DNNL_ARG_WEIGHTS, mask);
  const Stored scale = builder.add_floats(plan.scale);
  arguments.push_back({DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scale.desc(), scale.place});
  if (!fold_zero_point)
    add_zero_point(builder, DNNL_ARG_SRC, plan.x.zero_point, attributes, arguments);
  add_zero_point(builder, DNNL_ARG_DST, plan.y.zero_point, attributes, arguments);
  return attributes;
}

void add_zero_point(SegmentBuilder& builder, int argument, int zero_point,
                    dnnl::primitive_attr& attributes, std::vector<Argument>& arguments) {
  if (zero_point == 0) return;
  attributes.set_zero_points_mask(argument, 0);
  const Stored value = builder.add_integers({zero_point});
  arguments.push_back({DNNL_ARG_ATTR_ZERO_POINTS | argument, value.desc(), value.place});
}

void add_scale(SegmentBuilder& builder, int argument, float scale, dnnl::primitive_attr& attributes,
               std::vector<Argument>& arguments) {
  attributes.set_scales_mask(argument, 0);
  const Stored value = builder.add_floats({scale});
  arguments.push_back({DNNL_ARG_ATTR_SCALES | argument, value.desc(), value.place});
}

Clamp clamp_of(const ProgramOp& op) { return {op.find(attr::kPostMin), op.find(attr::kPostMax)}; }

void append_clamp(dnnl::post_ops& post_ops, const Clamp& clamp, const QuantParams& quant_params,
                  double unit) {
  bool has_min = clamp.min.has_value();
  bool has_max = clamp.max.has_value();
  if (quant_params.is_integer()) {
    const StepRange range = clamp_in_steps(quant_params, clamp);
    has_min = range.low > quant_params.lowest();
    has_max = range.high < quant_params.highest();
  }
  if (!has_min && !has_max) return;
  if (has_min && !has_max && *clamp.min == 0) {
    post_ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    return;
  }
  const float limit = std::numeric_limits<float>::infinity();
  post_ops.append_eltwise(dnnl::algorithm::eltwise_clip,
                          has_min ? static_cast<float>(*clamp.min / unit) : -limit,
                          has_max ? static_cast<float>(*clamp.max / unit) : limit);
}

dnnl::primitive_attr clamp_attributes(const ProgramOp& op) {
  dnnl::primitive_attr attributes = new_attributes();
  dnnl::post_ops post_ops;
  append_clamp(post_ops, clamp_of(op), {}, 1.0);
  attributes.set_post_ops(post_ops);
  return attributes;
}

void define_real(SegmentBuilder& builder, int output, const Stored& real) {
  const QuantParams declared = builder.output_quant_params(output);
  const bool are_floats = !declared.is_integer() && !real.quant_params.is_integer();
  builder.define(output, are_floats ? real : to_dense(builder, real, declared));
}

void define_result(SegmentBuilder& builder, int output, const Stored& result) {
  if (result.quant_params.is_integer()) return builder.define(output, result);
  define_real(builder, output, result);
}

}  // namespace octet::onednn
