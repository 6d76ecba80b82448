// Emits products with weights that stay integers (backends/onednn/kernels/weight_product.h).
#pragma once

#include <optional>

#include "backends/onednn/builder/segment_builder.h"
#include "backends/onednn/kernels/weight_product.h"

namespace octet::onednn {

// A weight that is packed once for all steps that read it.
struct IntegerProduct {
  WeightProduct product;
  Place values, scale, zero_point;
};

// Packs the weight for `rows` rows; nullopt when has_weight_product() is false.
std::optional<IntegerProduct> find_weight_product(SegmentBuilder& builder, const ProgramTensor& w,
                                                  int64_t rows);

// y[rows, out] = x[rows, in] * transpose(w) + bias[out]; x and y are floats, row-major.
void add_weight_product(SegmentBuilder& builder, const IntegerProduct& product, Place x, Place bias,
                        Place y);

}  // namespace octet::onednn
