// Filters in channels-last order: a constant [O, I, spatial...] whose bytes stand as [O,
// spatial..., I], so that a backend which wants them so need not move them when it loads. Its
// Tensor has the logical shape and the strides of that order. Free of torch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/tensor.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

// Whether a tensor of this rank can stand so: 3 to 5 dimensions.
bool can_be_channels_last(std::span<const int64_t> shape);
// [O, spatial..., I] of [O, I, spatial...].
std::vector<int64_t> channels_last_shape(std::span<const int64_t> shape);
// Whether the bytes stand in channels-last order, and not also in row-major order.
bool is_channels_last(const Tensor& tensor);
// The tensor [O, I, spatial...] whose bytes, in channels-last order, are those of `stored`, a
// contiguous [O, spatial..., I].
Tensor from_channels_last(const Tensor& stored);
// The contiguous tensor [O, spatial..., I] of the same elements; no copy where they stand so
// already.
Tensor as_channels_last(const Tensor& tensor);

// Brings the filters that only `support`'s segments read, and which it wants so, into channels-last
// order.
void order_filters(Program& program, const BackendSupport& support);
// Brings every constant that a segment of another backend than `taking` reads into row-major order.
void restore_row_major(Program& program, std::span<const std::string> taking);

}  // namespace octet
