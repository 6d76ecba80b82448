// linear on float activations of few rows, whose weights are stored as integers: the integers
// themselves are read (kernels/weight_product.h). With more rows the arithmetic decides, and
// oneDNN's float product on expanded weights is faster.
#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/ops.h"
#include "backends/onednn/emit/weight_product.h"

namespace octet::onednn {

bool emit_weight_only_linear(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  if (clamp_of(op).is_needed() || yt.dtype != DType::kFloat32) return false;
  const std::optional<IntegerProduct> product =
      find_weight_product(builder, builder.tensor(op.inputs[1]), xt.numel() / xt.shape.back());
  if (!product) return false;
  const Stored x = to_real(builder, op.inputs[0], row_major(xt.shape));
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] >= 0;
  const std::vector<float> bias =
      has_bias ? real_values(builder.tensor(op.inputs[2]))
               : std::vector<float>(static_cast<size_t>(product->product.out), 0.0f);
  add_weight_product(builder, *product, x.place, builder.add_floats(bias).place, y.place);
  builder.define(op.outputs[0], y);
  return true;
}

}  // namespace octet::onednn
