// Reorders convolution filters: the bytes of a constant [O, I, spatial...] are stored in
// channels-last order, [O, spatial..., I], so that a backend that needs this order does not reorder
// them on each load. The Tensor keeps its logical shape and has the strides of that order. Needs no
// LibTorch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/tensor.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

// Whether a tensor of this rank can have channels-last order: 3 to 5 dimensions.
bool can_be_channels_last(std::span<const int64_t> shape);
// Converts [O, I, spatial...] to [O, spatial..., I].
std::vector<int64_t> channels_last_shape(std::span<const int64_t> shape);
// Whether the bytes are in channels-last order and not also in row-major order.
bool is_channels_last(const Tensor& tensor);
// A tensor [O, I, spatial...] in channels-last order on the bytes of `stored`, a contiguous [O,
// spatial..., I].
Tensor from_channels_last(const Tensor& stored);
// The contiguous tensor [O, spatial..., I] of the same elements; copies only if their order
// differs.
Tensor as_channels_last(const Tensor& tensor);

// Reorders the filters that only segments of `support`'s backend read, and that it wants
// channels-last.
void order_filters(Program& program, const BackendSupport& support);
// Makes every constant row-major that a segment of a backend not in `taking` reads.
void restore_row_major(Program& program, std::span<const std::string> taking);

}  // namespace octet
