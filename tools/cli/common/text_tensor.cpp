#include "tools/cli/common/text_tensor.h"

#include <cstring>

#include <ATen/ops/empty.h>

namespace octet {

at::Tensor tensor_of_text(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of_tensor(const at::Tensor& bytes) {
  if (bytes.scalar_type() != at::kByte) return {};
  const at::Tensor dense = bytes.contiguous();
  return std::string(static_cast<const char*>(dense.const_data_ptr()),
                     static_cast<size_t>(dense.numel()));
}

}  // namespace octet
