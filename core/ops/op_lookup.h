// Finds the dispatcher's operator for the target of a node, and registers the ops of q/dq graphs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <ATen/core/dispatch/Dispatcher.h>

namespace octet {

// "aten.conv2d.default" -> the operator aten::conv2d. Registers the ops of quantized_decomposed and
// torchao first. Nothing when no loaded library registers it.
std::optional<c10::OperatorHandle> find_operator(std::string_view target);

// Octet registers its kernels for other libraries' ops in separate namespaces, because a process
// with Python may load those libraries too and an op can only be defined once. find_operator()
// looks there first.
inline constexpr const char* kOwnQuantizedDecomposed = "octet_quantized_decomposed";
inline constexpr const char* kOwnTorchao = "octet_torchao";
// "octet_torchao::quantize_affine" -> "torchao::quantize_affine"; other names are unchanged.
std::string without_own_namespace(std::string name);

// Register the ops of q/dq graphs, so that such graphs run without Python: the same schemas and
// roundings. find_operator(), find_op_schema() and Interpreter call these functions. Later calls do
// nothing. Thread-safe.
//
// torch's namespace quantized_decomposed.
void register_quantized_decomposed();
// The ops of torchao's namespace that converted programs contain: affine quantization by blocks,
// float8.
void register_torchao_ops();

}  // namespace octet
