// Bools whose bytes somebody else wrote. true is the byte 1, and reading a `bool` from any byte but
// 0 and 1 is undefined; so such bytes become 1 where they enter. Free of torch.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/tensor.h"

namespace octet {

// Whether each byte is 0 or 1.
bool are_bools(std::span<const std::byte> bytes);
// Copies `from` to `to`, of the same size, with 1 for each byte but 0. They may be the same.
void copy_as_bools(std::span<const std::byte> from, std::byte* to);
// Of bools with other bytes a copy, otherwise the tensor itself.
Tensor with_true_bools(const Tensor& given);

}  // namespace octet
