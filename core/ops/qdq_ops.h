// Registers the ops of q/dq graphs with the LibTorch dispatcher, so that such graphs run without
// Python: the same schemas and roundings, in separate namespaces (op_lookup.h). find_op_schema()
// and Interpreter call these functions. Later calls do nothing. Thread-safe.
#pragma once

namespace octet {

// torch's namespace quantized_decomposed.
void register_quantized_decomposed();

// The ops of torchao's namespace that converted programs contain: affine quantization by blocks,
// float8.
void register_torchao_ops();

}  // namespace octet
