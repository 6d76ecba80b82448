// Packs a weight once and adds a loop for each product. Linears on few rows of float activations
// read integer weights directly; with more rows, arithmetic dominates, and oneDNN's float product
// on expanded weights is faster.
#include "backends/kernels/weight_product.h"

#include <memory>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"

namespace octet::onednn {

bool emit_weight_only_linear(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  if (clamp_of(op).is_needed() || yt.dtype != DType::kFloat32) return false;
  const ProgramTensor& w = builder.tensor(op.inputs[1]);
  const int64_t rows = xt.numel() / xt.shape.back();
  if (!has_weight_product(w, rows)) return false;
  const PackedWeights packed = pack_weights(w, rows);
  const std::shared_ptr<void> values(std::make_shared<Tensor>(packed.values), packed.values.raw());
  const Place words = builder.add_bytes(values, static_cast<int64_t>(packed.values.nbytes()));
  const Stored x = to_real(builder, op.inputs[0], row_major(xt.shape));
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] >= 0;
  const std::vector<float> bias =
      has_bias ? real_values(builder.tensor(op.inputs[2]))
               : std::vector<float>(static_cast<size_t>(packed.product.out), 0.0f);
  add_kernel(builder, "linear", packed.product,
             {x.place, words, builder.add_floats(packed.scale).place,
              builder.add_floats(packed.shift).place, builder.add_floats(bias).place},
             y.place);
  builder.define(op.outputs[0], y);
  return true;
}

}  // namespace octet::onednn
