// Emits elementwise ops: tables and custom loops on integers, oneDNN on floats.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/kernels/float_loops.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/kernels/loop.h"
#include "backends/onednn/kernels/loops.h"
#include "backends/onednn/library.h"
#include "core/base/error.h"

namespace octet::onednn {
namespace {

struct UnaryRow {
  const char* fn;
  dnnl::algorithm algorithm;
  float alpha;  // of eltwise; NaN: the op's
  float beta;
};

const float kOfOp = std::nanf("");

const UnaryRow kUnaries[] = {
    {"sigmoid", dnnl::algorithm::eltwise_logistic, 0, 0},
    {"tanh", dnnl::algorithm::eltwise_tanh, 0, 0},
    {"hardswish", dnnl::algorithm::eltwise_hardswish, 1.0f / 6, 0.5f},
    {"hardsigmoid", dnnl::algorithm::eltwise_hardsigmoid, 1.0f / 6, 0.5f},
    {"silu", dnnl::algorithm::eltwise_swish, 1, 0},
    {"gelu", dnnl::algorithm::eltwise_gelu_erf, 0, 0},
    {"gelu_tanh", dnnl::algorithm::eltwise_gelu_tanh, 0, 0},
    {"leaky_relu", dnnl::algorithm::eltwise_relu, kOfOp, 0},
    {"elu", dnnl::algorithm::eltwise_elu, kOfOp, 0},
    {"exp", dnnl::algorithm::eltwise_exp, 0, 0},
    {"mish", dnnl::algorithm::eltwise_mish, 0, 0},
    {"neg", dnnl::algorithm::eltwise_linear, -1, 0},
    {"abs", dnnl::algorithm::eltwise_abs, 0, 0},
    {"square", dnnl::algorithm::eltwise_square, 0, 0},
    {"sqrt", dnnl::algorithm::eltwise_sqrt, 0, 0},
};

const UnaryRow* find_unary_row(const ProgramOp& unary) {
  const std::string fn = unary.get(attr::kFn);
  const bool is_square = fn == "pow" && unary.get(attr::kAlpha, 1) == 2;
  for (const UnaryRow& row : kUnaries)
    if (row.fn == (is_square ? "square" : fn)) return &row;
  return nullptr;
}

double alpha_of(const ProgramOp& unary) {
  return unary.get(attr::kAlpha, unary.get(attr::kFn) == "leaky_relu" ? 0.01 : 1.0);
}

// Applies a function to x: a table for integers, oneDNN for floats.
void emit_function(SegmentBuilder& builder, const ProgramOp& op,
                   const std::function<double(double)>& function, dnnl::algorithm algorithm,
                   float alpha, float beta) {
  const Stored x = builder.read(op.inputs[0]);
  const QuantParams wanted = builder.output_quant_params(op.outputs[0]);
  if (x.quant_params.is_integer()) {
    const Stored dense = to_dense(builder, x, x.quant_params);
    const Stored y = builder.allocate(x.shape, wanted, dense.strides);
    add_table(builder, dense, y, function);
    builder.define(op.outputs[0], y);
    return;
  }
  const Stored dense = to_dense(builder, x, x.quant_params);
  const Stored y = builder.allocate(x.shape, dense.quant_params, dense.strides);
  const dnnl::eltwise_forward::primitive_desc desc(cpu_engine(), dnnl::prop_kind::forward_inference,
                                                   algorithm, dense.desc(), y.desc(), alpha, beta,
                                                   new_attributes());
  builder.add_primitive(
      "elementwise function", desc,
      {{DNNL_ARG_SRC, dense.desc(), dense.place}, {DNNL_ARG_DST, y.desc(), y.place}});
  builder.allow_in_place();
  define_real(builder, op.outputs[0], y);
}

// Broadcasts the tensor's shape and strides to the output's: adds leading dimensions, and zero
// strides where it repeats.
Stored broadcast(const Stored& stored, const Dims& shape) {
  Stored wide = stored;
  while (wide.shape.size() < shape.size()) {
    wide.shape.insert(wide.shape.begin(), 1);
    wide.strides.insert(wide.strides.begin(), 0);
  }
  for (size_t i = 0; i < shape.size(); ++i)
    if (wide.shape[i] == 1 && shape[i] != 1) wide.strides[i] = 0;
  wide.shape = shape;
  return wide;
}

// Strides without gaps for a smaller operand, with dimensions nested as in the larger one.
Dims operand_strides(const Dims& shape, const Dims& like) {
  const Dims tail(like.end() - static_cast<std::ptrdiff_t>(shape.size()), like.end());
  return dense_like(shape, tail);
}

// Whether oneDNN would require a copy (both operands repeat, or one has gaps) or has no fast
// kernel, as when an operand repeats in a permuted order.
bool is_for_custom_loop(const Stored& a, const Stored& b, const Dims& shape, const Dims& order,
                        const QuantParams& form) {
  const auto has_gaps = [&](const Stored& x) {
    return x.shape == shape && !x.quant_params.is_integer() && !is_dense(x.shape, x.strides);
  };
  if (has_gaps(a) || has_gaps(b)) return true;
  const bool a_repeats = product(a.shape) < product(shape);
  if (a_repeats && product(b.shape) < product(shape)) return true;
  const auto desc_of = [&](const Stored& x) {
    return with_rank({{}, form, x.shape, operand_strides(x.shape, order)}, shape.size()).desc();
  };
  const Stored to{{}, form, shape, dense_like(shape, order)};
  const dnnl::binary::primitive_desc desc(cpu_engine(), dnnl::algorithm::binary_mul,
                                          desc_of(a_repeats ? b : a), desc_of(a_repeats ? a : b),
                                          to.desc(), new_attributes());
  return std::string_view(desc.impl_info_str()).starts_with("ref");
}

void emit_custom_elementwise(SegmentBuilder& builder, const ProgramOp& op, const Dims& shape,
                             const Dims& order) {
  const auto operand = [&](size_t i) {
    const Stored x = builder.read(op.inputs[i]);
    return broadcast(x.quant_params == QuantParams{} ? x : to_dense(builder, x, {}), shape);
  };
  const Stored a = operand(0), b = operand(1);
  const Stored y = builder.allocate(shape, {}, dense_like(shape, order));
  const bool is_product = op.is("mul");
  const double alpha = op.get(attr::kAlpha, 1.0) * (op.is("sub") ? -1 : 1);
  builder.add_loop(is_product ? "multiplication" : "addition",
                   real_loop(is_product ? Elementwise::kMul : Elementwise::kAdd, a, 1.0f, b,
                             static_cast<float>(alpha), y, clamp_of(op)),
                   {a.place, b.place, y.place});
  define_real(builder, op.outputs[0], y);
}

void emit_real_elementwise(SegmentBuilder& builder, const ProgramOp& op, const Dims& shape,
                           const Dims& order) {
  // the float type of operands and result
  const QuantParams form = builder.float_form(op.outputs[0]);
  if (is_for_custom_loop(builder.read(op.inputs[0]), builder.read(op.inputs[1]), shape, order,
                         form))
    return emit_custom_elementwise(builder, op, shape, order);
  Stored a = convert(builder, builder.read(op.inputs[0]), form,
                     operand_strides(builder.tensor(op.inputs[0]).shape, order));
  Stored b = convert(builder, builder.read(op.inputs[1]), form,
                     operand_strides(builder.tensor(op.inputs[1]).shape, order));
  double alpha = op.get(attr::kAlpha, 1.0) * (op.is("sub") ? -1 : 1);
  int scaled = DNNL_ARG_SRC_1;  // the argument that alpha scales
  if (product(a.shape) < product(shape) && product(b.shape) == product(shape)) {
    std::swap(a, b);
    scaled = DNNL_ARG_SRC_0;
  }
  for (Stored* side : {&a, &b}) {
    while (side->shape.size() < shape.size()) {
      side->strides.insert(side->strides.begin(),
                           side->shape.empty() ? 1 : side->strides[0] * side->shape[0]);
      side->shape.insert(side->shape.begin(), 1);
    }
  }
  const Stored y = builder.allocate(shape, form, dense_like(shape, order));
  dnnl::primitive_attr attributes = clamp_attributes(op);
  std::vector<Argument> arguments = {{DNNL_ARG_SRC_0, a.desc(), a.place},
                                     {DNNL_ARG_SRC_1, b.desc(), b.place},
                                     {DNNL_ARG_DST, y.desc(), y.place}};
  dnnl::algorithm algorithm =
      op.is("mul") ? dnnl::algorithm::binary_mul : dnnl::algorithm::binary_add;
  if (op.is("sub") && alpha == -1 && scaled == DNNL_ARG_SRC_1) {
    algorithm = dnnl::algorithm::binary_sub;
  } else if (!op.is("mul") && alpha != 1) {
    attributes.set_scales_mask(scaled, 0);
    const Stored scale = builder.add_floats({static_cast<float>(alpha)});
    arguments.push_back({DNNL_ARG_ATTR_SCALES | scaled, scale.desc(), scale.place});
  }
  const dnnl::binary::primitive_desc desc(cpu_engine(), algorithm, a.desc(), b.desc(), y.desc(),
                                          attributes);
  builder.add_primitive(op.is("mul") ? "multiplication" : "addition", desc, std::move(arguments));
  builder.allow_in_place();
  define_real(builder, op.outputs[0], y);
}

}  // namespace

void emit_elementwise(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.outputs[0]).shape;
  const Stored a = builder.read(op.inputs[0]);
  const Stored b = builder.read(op.inputs[1]);
  const Stored& larger = product(a.shape) >= product(b.shape) ? a : b;
  const Dims order = larger.shape == shape ? dense_like(shape, larger.strides) : row_major(shape);
  const QuantParams wanted = builder.output_quant_params(op.outputs[0]);
  if (!a.quant_params.is_integer() || !b.quant_params.is_integer() || !wanted.is_integer()) {
    emit_real_elementwise(builder, op, shape, order);
    return;
  }
  const Stored left =
      convert(builder, a, as_unsigned(a.quant_params), operand_strides(a.shape, order));
  const Stored right =
      convert(builder, b, as_unsigned(b.quant_params), operand_strides(b.shape, order));
  const Stored y = builder.allocate(shape, wanted, order);
  const double alpha = op.get(attr::kAlpha, 1.0) * (op.is("sub") ? -1 : 1);
  const Elementwise kind = op.is("mul") ? Elementwise::kMul : Elementwise::kAdd;
  builder.add_loop(kind == Elementwise::kAdd ? "add" : "mul",
                   elementwise_loop(kind, broadcast(left, shape), 1.0, broadcast(right, shape),
                                    alpha, y, clamp_of(op)),
                   {left.place, right.place, y.place});
  builder.define(op.outputs[0], y);
}

void emit_clamp(SegmentBuilder& builder, const ProgramOp& op) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double low = op.find(attr::kMin).value_or(-infinity);
  const double high = op.find(attr::kMax).value_or(infinity);
  const bool is_relu = low == 0 && high == infinity;
  emit_function(
      builder, op, [=](double x) { return std::min(std::max(x, low), high); },
      is_relu ? dnnl::algorithm::eltwise_relu : dnnl::algorithm::eltwise_clip,
      is_relu ? 0.0f : static_cast<float>(low), is_relu ? 0.0f : static_cast<float>(high));
}

std::optional<Eltwise> find_eltwise(const ProgramOp& unary) {
  const UnaryRow* row = find_unary_row(unary);
  if (row == nullptr) return std::nullopt;
  return Eltwise{row->algorithm,
                 std::isnan(row->alpha) ? static_cast<float>(alpha_of(unary)) : row->alpha,
                 row->beta};
}

void emit_unary(SegmentBuilder& builder, const ProgramOp& op) {
  const std::optional<FloatFunction> function = find_float_function(op);
  if (!function) throw Refusal{fmt::format("the function {} is unknown here", op.get(attr::kFn))};
  const std::optional<Eltwise> eltwise = find_eltwise(op);
  const Stored x = builder.read(op.inputs[0]);
  if (eltwise || x.quant_params.is_integer())
    return emit_function(
        builder, op,
        [f = *function](double v) { return f.function->value(v, f.alpha, f.threshold); },
        eltwise ? eltwise->algorithm : dnnl::algorithm::undef, eltwise ? eltwise->alpha : 0,
        eltwise ? eltwise->beta : 0);
  const Stored dense = to_dense(builder, x, {});
  const Stored y = builder.allocate(x.shape, {}, dense.strides);
  add_kernel(builder, "elementwise function", FloatMap{product(x.shape), *function}, {dense.place},
             y.place);
  define_real(builder, op.outputs[0], y);
}

void emit_requantize(SegmentBuilder& builder, const ProgramOp& op) {
  const Stored x = builder.read(op.inputs[0]);
  const QuantParams wanted = builder.output_quant_params(op.outputs[0]);
  // floats are made when the first op needs them
  if (x.quant_params.is_integer() && !wanted.is_integer()) {
    builder.define_integers(op.outputs[0], x);
    builder.define_later(op.outputs[0], [&builder, x] { return to_dense(builder, x, {}); });
    return;
  }
  if (op.has(attr::kQuantMin) || op.has(attr::kQuantMax)) {
    const QuantParams declared = builder.declared_quant_params(op.outputs[0]);
    const int shift = wanted.zero_point - declared.zero_point;
    const StepRange range{static_cast<int>(op.get(attr::kQuantMin, declared.lowest())) + shift,
                          static_cast<int>(op.get(attr::kQuantMax, declared.highest())) + shift};
    const Stored from = to_dense(builder, x, {}),
                 y = builder.allocate(x.shape, wanted, from.strides);
    add_quantize(builder, from, y, range);
    builder.define(op.outputs[0], y);
    return;
  }
  // Quantized tensors are mostly read by convolutions, and changing the type makes changing the
  // order free.
  const bool is_plain_input = op.is("quantize") && x.shape.size() >= 3 && x.shape.size() <= 5 &&
                              same_strides(x.shape, x.strides, row_major(x.shape));
  if (is_plain_input && builder.prefers_channels_last(op.outputs[0]) && x.shape.size() == 4 &&
      x.shape[1] == 3) {
    const Stored y = builder.allocate(x.shape, wanted, channels_last(x.shape));
    builder.add_loop("quantize image", image_loop(x, y), {x.place, y.place});
    builder.define(op.outputs[0], y);
    return;
  }
  builder.define(op.outputs[0], is_plain_input && builder.prefers_channels_last(op.outputs[0])
                                    ? convert(builder, x, wanted, channels_last(x.shape))
                                    : to_dense(builder, x, wanted));
}

}  // namespace octet::onednn
