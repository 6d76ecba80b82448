// The dispatcher's handle of an op, by a node's target.
#pragma once

#include <optional>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

namespace octet {

// "aten.conv2d.default" -> the operator aten::conv2d. Registers quantized_decomposed and torchao's
// ops first. Nothing when no loaded library registers it.
std::optional<c10::OperatorHandle> find_operator(std::string_view target);

}  // namespace octet
