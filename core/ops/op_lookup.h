// The dispatcher's handle of an op, by a node's target.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

namespace octet {

// "aten.conv2d.default" -> the operator aten::conv2d. Registers quantized_decomposed and torchao's
// ops first. Nothing when no loaded library registers it.
std::optional<c10::OperatorHandle> find_operator(std::string_view target);

// Octet's kernels of other libraries' ops stand in namespaces of its own, octet_torchao for
// torchao: a process with Python in it may have those libraries too, and an op is defined once.
// find_operator() looks there first.
inline constexpr const char* kOwnQuantizedDecomposed = "octet_quantized_decomposed";
inline constexpr const char* kOwnTorchao = "octet_torchao";
// "octet_torchao::quantize_affine" -> "torchao::quantize_affine"; other names as they are.
std::string without_own_namespace(std::string name);

}  // namespace octet
