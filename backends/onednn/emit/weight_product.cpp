// Packs a weight once and adds a loop for each product.
#include "backends/onednn/emit/weight_product.h"

#include <memory>

namespace octet::onednn {

std::optional<IntegerProduct> find_weight_product(SegmentBuilder& builder, const ProgramTensor& w,
                                                  int64_t rows) {
  if (!has_weight_product(w, rows)) return std::nullopt;
  const PackedProduct packed = pack_weight_product(w, rows);
  const std::shared_ptr<void> values(std::make_shared<Tensor>(packed.values), packed.values.raw());
  return IntegerProduct{packed.product, builder.add_bytes(values, packed.values.numel()),
                        builder.add_floats(packed.scale).place,
                        builder.add_floats(packed.zero_point).place};
}

void add_weight_product(SegmentBuilder& builder, const IntegerProduct& product, Place x, Place bias,
                        Place y) {
  builder.add_loop("linear", weight_product_loop(product.product),
                   {x, product.values, product.scale, product.zero_point, bias, y});
}

}  // namespace octet::onednn
