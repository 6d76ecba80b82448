// Emits softmax, layer_norm and batch_norm in floats; integer inputs and outputs are converted.
#include <cmath>

#include "backends/kernels/isa.h"
#include "backends/kernels/softmax.h"
#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/library.h"
#include "core/base/error.h"
#include "core/base/shape.h"

namespace octet::onednn {
void emit_softmax(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.inputs[0]).shape;
  if (shape.empty()) {
    const Stored x = to_real(builder, op.inputs[0], {}), y = builder.allocate({}, {}, {});
    add_kernel(builder, "softmax", FloatSoftmax{}, {x.place}, y.place);
    define_real(builder, op.outputs[0], y);
    return;
  }
  const int64_t dim = op.get(attr::kDim);
  const size_t axis = static_cast<size_t>(wrap_dim(dim, shape.size()));
  // Make the axis innermost: other orders only have a reference kernel.
  Dims nesting = row_major(shape);
  for (int64_t& stride : nesting) stride = 2 * stride + 1;
  nesting[axis] = 0;
  const Dims order = dense_like(shape, nesting);
  const Stored x = to_real(builder, op.inputs[0], order);
  const Stored y = builder.allocate(shape, {}, order);
  const bool is_masked = op.get(attr::kMasked);
  if (is_masked || may_use(Isa::kAvx512)) {  // else use oneDNN
    add_kernel(builder, "softmax", FloatSoftmax{x.numel() / shape[axis], shape[axis], 1, is_masked},
               {x.place}, y.place);
    builder.allow_in_place();
    define_real(builder, op.outputs[0], y);
    return;
  }
  const dnnl::softmax_forward::primitive_desc desc(
      cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, x.desc(),
      y.desc(), static_cast<int>(axis), new_attributes());
  refuse_reference_kernel("softmax", desc.impl_info_str());
  builder.add_primitive("softmax", desc,
                        {{DNNL_ARG_SRC, x.desc(), x.place}, {DNNL_ARG_DST, y.desc(), y.place}});
  builder.allow_in_place();
  define_real(builder, op.outputs[0], y);
}

void emit_layer_norm(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const size_t normalized = static_cast<size_t>(op.get(attr::kNormalizedDims));
  int64_t width = 1;
  for (size_t d = xt.shape.size() - normalized; d < xt.shape.size(); ++d) width *= xt.shape[d];
  const Dims rows = {xt.numel() / width, width};
  const Stored whole = to_real(builder, op.inputs[0], row_major(xt.shape));
  const Stored x{whole.place, {}, rows, row_major(rows)};
  const Stored y = builder.allocate(rows, {}, row_major(rows));
  const Stored scale = builder.add_floats(parameter(builder, op, 1, width, 1.0f));
  const Stored shift = builder.add_floats(parameter(builder, op, 2, width, 0.0f));
  const dnnl::layer_normalization_forward::primitive_desc desc(
      cpu_engine(), dnnl::prop_kind::forward_inference, x.desc(), y.desc(),
      static_cast<float>(op.get(attr::kEps)),
      dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift,
      new_attributes());
  refuse_reference_kernel("layer_norm", desc.impl_info_str());
  builder.add_primitive("layer_norm", desc,
                        {{DNNL_ARG_SRC, x.desc(), x.place},
                         {DNNL_ARG_DST, y.desc(), y.place},
                         {DNNL_ARG_SCALE, scale.desc(), scale.place},
                         {DNNL_ARG_SHIFT, shift.desc(), shift.place}});
  builder.allow_in_place();
  define_real(builder, op.outputs[0], {y.place, {}, xt.shape, row_major(xt.shape)});
}

// y = x * k + s per channel: one multiplication followed by an addition.
void emit_batch_norm(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims& shape = builder.tensor(op.inputs[0]).shape;
  const int64_t channels = shape[1];
  const std::vector<float> mean = real_values(builder.tensor(op.inputs[1]));
  const std::vector<float> variance = real_values(builder.tensor(op.inputs[2]));
  std::vector<float> factor = parameter(builder, op, 3, channels, 1.0f);
  std::vector<float> shift = parameter(builder, op, 4, channels, 0.0f);
  for (size_t c = 0; c < factor.size(); ++c) {
    factor[c] = static_cast<float>(factor[c] / std::sqrt(variance[c] + op.get(attr::kEps)));
    shift[c] -= mean[c] * factor[c];
  }
  const Stored given = to_dense(builder, builder.read(op.inputs[0]), {});
  const bool is_plain = same_strides(shape, given.strides, row_major(shape));
  const Dims order = is_plain ? row_major(shape) : channels_last(shape);
  // Other orders, which views and permutations produce, only have a reference kernel, and so do
  // other strides of dimensions of size 1.
  const bool has_kernel = is_plain || same_strides(shape, given.strides, order);
  Stored x = has_kernel ? given : to_real(builder, op.inputs[0], order);
  x.strides = order;
  const Stored y = builder.allocate(shape, {}, x.strides);
  Dims per_channel(shape.size(), 1);
  per_channel[1] = channels;
  const dnnl::memory::desc vector(per_channel, ElementType::f32,
                                  dense_like(per_channel, x.strides));
  dnnl::primitive_attr attributes = new_attributes();
  dnnl::post_ops post_ops;
  post_ops.append_binary(dnnl::algorithm::binary_add, vector);
  attributes.set_post_ops(post_ops);
  const dnnl::binary::primitive_desc desc(cpu_engine(), dnnl::algorithm::binary_mul, x.desc(),
                                          vector, y.desc(), attributes);
  refuse_reference_kernel("batch_norm", desc.impl_info_str());
  const int addend = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
  builder.add_primitive("batch_norm", desc,
                        {{DNNL_ARG_SRC_0, x.desc(), x.place},
                         {DNNL_ARG_SRC_1, vector, builder.add_floats(factor).place},
                         {DNNL_ARG_DST, y.desc(), y.place},
                         {addend, vector, builder.add_floats(shift).place}});
  builder.allow_in_place();
  define_real(builder, op.outputs[0], y);
}

}  // namespace octet::onednn
