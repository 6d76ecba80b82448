// The ops of torch's namespace quantized_decomposed, so that q/dq graphs run without Python: same
// schemas, same roundings.
#pragma once

namespace octet {

// Registers them with the LibTorch dispatcher, in a namespace of Octet's own (op_lookup.h); later
// calls do nothing. Thread-safe.
// find_op_schema() and Interpreter call it themselves.
void register_quantized_decomposed();

// The ops of torchao's namespace that converted programs contain (affine quantization by blocks,
// float8), so that they run without Python: same schemas, same roundings.

// Registers them with the LibTorch dispatcher, in a namespace of Octet's own (op_lookup.h); later
// calls do nothing. Thread-safe.
// find_op_schema() and Interpreter call it themselves.
void register_torchao_ops();

}  // namespace octet
