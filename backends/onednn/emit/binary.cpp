// Runs float functions of two tensors with oneDNN: div, minimum, maximum, prelu. Converts integer
// inputs and outputs.
#include <algorithm>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/library.h"

namespace octet::onednn {
namespace {

struct BinaryRow {
  OpKind kind;
  dnnl::algorithm algorithm;
};
constexpr BinaryRow kBinaries[] = {
    {"div", dnnl::algorithm::binary_div},
    {"minimum", dnnl::algorithm::binary_min},
    {"maximum", dnnl::algorithm::binary_max},
};

// Repeats the tensor to all of `shape`, in the given order.
Stored repeated(SegmentBuilder& builder, const Stored& stored, const Dims& shape,
                const Dims& order) {
  if (stored.shape == shape) return stored;
  Stored wide = stored;
  for (size_t d = 0; d < shape.size(); ++d)
    if (wide.shape[d] == 1) wide.strides[d] = 0;
  wide.shape = shape;
  const Stored full = builder.allocate(shape, {}, order);
  add_copy(builder, wide, full);
  return full;
}

// The input as floats; in the output's order if it has the output's shape.
Stored operand(SegmentBuilder& builder, int index, const Dims& shape, const Dims& order) {
  const Dims own = builder.tensor(index).shape;
  return with_rank(to_real(builder, index, own == shape ? order : row_major(own)), shape.size());
}

}  // namespace

void emit_binary(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims shape = builder.tensor(op.outputs[0]).shape;
  const Stored kept = builder.read(op.inputs[0]);
  const Dims order = kept.shape == shape ? dense_like(shape, kept.strides) : row_major(shape);
  const BinaryRow* row =
      std::find_if(std::begin(kBinaries), std::end(kBinaries),
                   [&](const BinaryRow& candidate) { return op.kind == candidate.kind; });
  const Stored a = repeated(builder, operand(builder, op.inputs[0], shape, order), shape, order);
  const Stored b = operand(builder, op.inputs[1], shape, order);
  const Stored y = builder.allocate(shape, {}, order);
  const dnnl::binary::primitive_desc desc(cpu_engine(), row->algorithm, a.desc(), b.desc(),
                                          y.desc(), clamp_attributes(op));
  builder.add_primitive(row->kind.name.data(), desc,
                        {{DNNL_ARG_SRC_0, a.desc(), a.place},
                         {DNNL_ARG_SRC_1, b.desc(), b.place},
                         {DNNL_ARG_DST, y.desc(), y.place}});
  define_real(builder, op.outputs[0], y);
}

void emit_prelu(SegmentBuilder& builder, const ProgramOp& op) {
  const Dims shape = builder.tensor(op.inputs[0]).shape;
  const Stored x = to_dense(builder, builder.read(op.inputs[0]), {});
  const Stored y = builder.allocate(shape, {}, x.strides);
  const std::vector<float> slopes = real_values(builder.tensor(op.inputs[1]));
  if (slopes.size() == 1) {  // a single slope is a leaky relu
    const dnnl::eltwise_forward::primitive_desc leaky(
        cpu_engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::eltwise_relu, x.desc(),
        y.desc(), slopes[0], 0.0f, new_attributes());
    builder.add_primitive("prelu", leaky,
                          {{DNNL_ARG_SRC, x.desc(), x.place}, {DNNL_ARG_DST, y.desc(), y.place}});
    return define_real(builder, op.outputs[0], y);
  }
  Dims per_channel(shape.size(), 1);
  per_channel[1] = shape[1];
  const Stored weights = builder.add_floats(slopes);
  const dnnl::memory::desc vector(per_channel, ElementType::f32,
                                  dense_like(per_channel, x.strides));
  const dnnl::prelu_forward::primitive_desc desc(cpu_engine(), dnnl::prop_kind::forward_inference,
                                                 x.desc(), vector, y.desc(), new_attributes());
  refuse_reference_kernel("prelu", desc.impl_info_str());
  builder.add_primitive("prelu", desc,
                        {{DNNL_ARG_SRC, x.desc(), x.place},
                         {DNNL_ARG_WEIGHTS, vector, weights.place},
                         {DNNL_ARG_DST, y.desc(), y.place}});
  define_real(builder, op.outputs[0], y);
}

}  // namespace octet::onednn
