// Emits linears on float activations that read integer weights directly.
#include "backends/kernels/weight_product.h"

#include <memory>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"
#include "backends/onednn/packed.h"

namespace octet::onednn {
namespace {

// Keeps one copy for all segments and numbers of rows.
Place add_weights(SegmentBuilder& builder, const ProgramTensor& w, const WeightProduct& product) {
  const int64_t size = product.weights_bytes();
  std::shared_ptr<void> bytes;
  if (builder.purpose() == SegmentBuilder::Purpose::kRun)
    bytes = find_or_pack(
        *w.stored,
        {product.has_bfloat_scales ? "words and bfloat16 scales" : "words and scales",
         {},
         {},
         static_cast<size_t>(size)},
        [&] {
          const auto packed = std::make_shared<Tensor>(pack_weights(w));
          return PackedBlock{std::shared_ptr<std::byte>(packed, packed->raw()), packed->nbytes()};
        });
  return builder.add_bytes(std::move(bytes), size);
}

}  // namespace

bool emit_weight_only_linear(SegmentBuilder& builder, const ProgramOp& op) {
  const ProgramTensor& xt = builder.tensor(op.inputs[0]);
  const ProgramTensor& yt = builder.tensor(op.outputs[0]);
  if (clamp_of(op).is_needed() || yt.dtype != DType::kFloat32) return false;
  const ProgramTensor& w = builder.tensor(op.inputs[1]);
  const int64_t rows = xt.numel() / xt.shape.back();
  if (!has_weight_product(w, rows)) return false;
  const WeightProduct product = weight_product(w, rows, builder.computes_in_bfloat16(op));
  const Stored x = to_real(builder, op.inputs[0], row_major(xt.shape));
  const Stored y = builder.allocate(yt.shape, {}, row_major(yt.shape));
  const bool has_bias = op.inputs.size() > 2 && op.inputs[2] >= 0;
  const std::vector<float> bias = has_bias
                                      ? real_values(builder.tensor(op.inputs[2]))
                                      : std::vector<float>(static_cast<size_t>(product.out), 0.0f);
  add_kernel(builder, "linear", product,
             {x.place, add_weights(builder, w, product), builder.add_floats(bias).place}, y.place);
  builder.define(op.outputs[0], y);
  return true;
}

}  // namespace octet::onednn
