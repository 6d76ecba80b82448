#include "core/base/bool_bytes.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace octet {

bool are_bools(std::span<const std::byte> bytes) {
  const std::byte bits =
      std::accumulate(bytes.begin(), bytes.end(), std::byte{0}, std::bit_or<std::byte>());
  return bits <= std::byte{1};
}

void copy_as_bools(std::span<const std::byte> from, std::byte* to) {
  std::transform(from.begin(), from.end(), to,
                 [](std::byte byte) { return byte == std::byte{0} ? byte : std::byte{1}; });
}

Tensor with_true_bools(const Tensor& given) {
  if (!given.defined() || given.dtype() != DType::kBool || given.numel() == 0) return given;
  const Tensor tensor = given.contiguous();
  const std::span<const std::byte> bytes(tensor.raw(), tensor.nbytes());
  if (are_bools(bytes)) return given;
  Tensor copy = Tensor::zeros(DType::kBool, tensor.shape());
  copy_as_bools(bytes, copy.raw());
  return copy;
}

}  // namespace octet
