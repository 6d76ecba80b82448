// Text within a torch.save file: a tensor of bytes.
#pragma once

#include <string>

#include <ATen/core/Tensor.h>

namespace octet {

at::Tensor tensor_of_text(const std::string& text);
// "" of a tensor of anything but bytes.
std::string text_of_tensor(const at::Tensor& bytes);

}  // namespace octet
