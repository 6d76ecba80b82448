// linear (constant weights, packed ahead) and matmul (two activations).
#include <algorithm>

#include <fmt/format.h>

#include "backends/onednn/onednn_library.h"
#include "backends/onednn/onednn_ops.h"
#include "core/error.h"

namespace octet::onednn {
namespace {

int64_t linear_channel(int64_t index, const Dims& shape, int64_t) { return index / shape[1]; }

Stored with_shape(const Stored& dense, const Dims& shape) { return {dense.place, dense.quantity, shape, row_major(shape)}; }

void add_zero_point(SegmentBuilder& builder, int argument, int zero_point, dnnl::primitive_attr& attributes, std::vector<Argument>& arguments) {
  if (zero_point == 0) return;
  attributes.set_zero_points_mask(argument, 0);
  const Stored value = builder.add_integers({zero_point});
  arguments.push_back({DNNL_ARG_ATTR_ZERO_POINTS | argument, value.desc(), value.place});
}

void add_scale(SegmentBuilder& builder, int argument, float scale, dnnl::primitive_attr& attributes, std::vector<Argument>& arguments) {
  attributes.set_scales_mask(argument, 0);
  const Stored value = builder.add_floats({scale});
  arguments.push_back({DNNL_ARG_ATTR_SCALES | argument, value.desc(), value.place});
}

// The second factor as s8: its kernels take nothing else.
Quantity as_signed(Quantity quantity) {
  if (quantity.type == ElementType::u8) quantity = {ElementType::s8, quantity.scale, quantity.zero_point - 128};
  return quantity;
}

// Leading dimensions of the factors in front, so that both have the output's rank.
Stored with_rank(const Stored& stored, size_t rank) {
  Stored wide = stored;
  while (wide.shape.size() < rank) {
    wide.strides.insert(wide.strides.begin(), wide.strides.empty() ? 1 : wide.strides[0] * wide.shape[0]);
    wide.shape.insert(wide.shape.begin(), 1);
  }
  return wide;
}

// Matrices whose last two dimensions are dense in either order stay as they are (oneDNN reads both); others become row-major.
Stored as_matrices(SegmentBuilder& builder, const Stored& stored, const Quantity& quantity) {
  const size_t rank = stored.shape.size();
  Dims transposed = stored.shape;
  std::swap(transposed[rank - 1], transposed[rank - 2]);
  Dims strides = row_major(transposed);
  std::swap(strides[rank - 1], strides[rank - 2]);
  if (stored.quantity == quantity && same_strides(stored.shape, stored.strides, strides)) return {stored.place, quantity, stored.shape, strides};
  return builder.convert(stored, quantity, row_major(stored.shape));
}

}  // namespace

void emit_linear(SegmentBuilder& builder, const ProgramOp& op) {
  if (emit_dynamic_linear(builder, op) || emit_weight_only_linear(builder, op)) return;
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& wt = builder.tensor(op.inputs[1]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const int64_t n = wt.shape[0];
  const int64_t k = wt.shape[1];
  const int64_t m = xt.numel() / k;
  const Arithmetic plan = plan_arithmetic(builder, op, n, true, linear_channel);
  const Stored x = with_shape(builder.convert(builder.read(op.inputs[0]), plan.x, row_major(xt.shape)), {m, k});
  const Stored y = builder.allocate({m, n}, plan.y, {n, 1});
  const dnnl::memory::desc w({k, n}, plan.is_integer ? ElementType::s8 : ElementType::f32, dnnl::memory::dims{1, k});
  const dnnl::memory::desc w_any({k, n}, w.get_data_type(), dnnl::memory::format_tag::any);
  std::vector<Argument> arguments;
  const dnnl::primitive_attr attributes = integer_attributes(builder, plan, plan.scale.size() > 1 ? 2 : 0, true, clamp_of(op), arguments);
  dnnl::memory::desc bias;
  if (!plan.bias.empty()) {
    const Stored values = builder.add_floats(plan.bias);
    bias = dnnl::memory::desc({1, n}, ElementType::f32, dnnl::memory::dims{n, 1});
    arguments.push_back({DNNL_ARG_BIAS, bias, values.place});
  }
  const dnnl::matmul::primitive_desc desc(cpu_engine(), x.desc(), w_any, bias, y.desc(), attributes);
  const Tensor data = wt.data.contiguous();
  const void* source = plan.is_integer ? static_cast<const void*>(data.raw()) : plan.real_weights.data();
  arguments.push_back({DNNL_ARG_WEIGHTS, desc.weights_desc(), builder.add_packed(w, source, desc.weights_desc())});
  arguments.push_back({DNNL_ARG_SRC, x.desc(), x.place});
  arguments.push_back({DNNL_ARG_DST, y.desc(), y.place});
  SegmentBuilder::refuse_reference_kernel("linear", desc.impl_info_str());
  builder.add_primitive("linear", desc, std::move(arguments));
  const Stored result = with_shape(y, yt.shape);
  if (plan.is_integer) {
    builder.define(op.outputs[0], result);
  } else {
    define_real(builder, op.outputs[0], result);
  }
}

void emit_matmul(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  const Stored a0 = builder.read(op.inputs[0]);
  const Stored b0 = builder.read(op.inputs[1]);
  const bool is_integer = a0.quantity.is_integer() && b0.quantity.is_integer();
  const Quantity qa = is_integer ? SegmentBuilder::as_unsigned(a0.quantity) : Quantity{};
  const Quantity qb = is_integer ? as_signed(b0.quantity) : Quantity{};
  const Quantity qy = is_integer ? builder.output_quantity(op.outputs[0]) : Quantity{};
  const Stored a = with_rank(as_matrices(builder, a0, qa), yt.shape.size());
  const Stored b = with_rank(as_matrices(builder, b0, qb), yt.shape.size());
  const Stored y = builder.allocate(yt.shape, qy, row_major(yt.shape));
  const double unit = qy.is_integer() ? qy.scale : 1.0;
  dnnl::primitive_attr attributes = new_attributes();
  std::vector<Argument> arguments;
  if (is_integer) {
    add_scale(builder, DNNL_ARG_WEIGHTS, static_cast<float>(static_cast<double>(qa.scale) * qb.scale / unit), attributes, arguments);
    add_zero_point(builder, DNNL_ARG_SRC, qa.zero_point, attributes, arguments);
    add_zero_point(builder, DNNL_ARG_WEIGHTS, qb.zero_point, attributes, arguments);
    add_zero_point(builder, DNNL_ARG_DST, qy.zero_point, attributes, arguments);
  }
  dnnl::post_ops post_ops;
  append_clamp(post_ops, clamp_of(op), qy, unit);
  attributes.set_post_ops(post_ops);
  const dnnl::matmul::primitive_desc desc(cpu_engine(), a.desc(), b.desc(), y.desc(), attributes);
  arguments.push_back({DNNL_ARG_SRC, a.desc(), a.place});
  arguments.push_back({DNNL_ARG_WEIGHTS, b.desc(), b.place});
  arguments.push_back({DNNL_ARG_DST, y.desc(), y.place});
  SegmentBuilder::refuse_reference_kernel("matmul", desc.impl_info_str());
  builder.add_primitive("matmul", desc, std::move(arguments));
  if (is_integer) {
    builder.define(op.outputs[0], y);
  } else {
    define_real(builder, op.outputs[0], y);
  }
}

}  // namespace octet::onednn
