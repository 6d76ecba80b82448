// The ops of torch's namespace quantized_decomposed, so that q/dq graphs run without Python: same
// schemas, same roundings.
#pragma once

namespace octet {

// Registers them with the LibTorch dispatcher; later calls do nothing. Thread-safe.
// find_op_schema() and Interpreter call it themselves.
void register_quantized_decomposed();

}  // namespace octet
