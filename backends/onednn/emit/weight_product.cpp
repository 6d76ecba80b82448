// Packs a weight once and adds a loop for each product. Linears on few rows of float activations
// read integer weights directly; with more rows, arithmetic dominates, and oneDNN's float product
// on expanded weights is faster.
#include "backends/onednn/kernels/weight_product.h"

#include <memory>
#include <optional>

#include "backends/onednn/builder/constants.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/arithmetic.h"
#include "backends/onednn/emit/emitters.h"

namespace octet::onednn {
namespace {

// A weight that is packed once for all steps that read it.
struct IntegerProduct {
  WeightProduct product;
  Place values, scale, zero_point;
};

// Packs the weight for `rows` rows; nullopt when has_weight_product() is false.
std::optional<IntegerProduct> find_weight_product(SegmentBuilder& builder, const ProgramTensor& w,
                                                  int64_t rows) {
  if (!has_weight_product(w, rows)) return std::nullopt;
  const PackedProduct packed = pack_weight_product(w, rows);
  const std::shared_ptr<void> values(std::make_shared<Tensor>(packed.values), packed.values.raw());
  return IntegerProduct{packed.product, builder.add_bytes(values, packed.values.numel()),
                        builder.add_floats(packed.scale).place,
                        builder.add_floats(packed.zero_point).place};
}

// y[rows, out] = x[rows, in] * transpose(w) + bias[out]; x and y are floats, row-major.
void add_weight_product(SegmentBuilder& builder, const IntegerProduct& product, Place x, Place bias,
                        Place y) {
  builder.add_loop("linear", weight_product_loop(product.product),
                   {x, product.values, product.scale, product.zero_point, bias, y});
}

}  // namespace

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
