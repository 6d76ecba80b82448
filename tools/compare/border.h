// Programs that take or give integers (`octet quantize --quantized-io`), beside those of floats.
#pragma once

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/quantized_io.h"
#include "core/graph/graph.h"

namespace octet {

// Inputs and outputs become floats, quantized and dequantized within the program. Returns what was
// integers. Throws what read_quantized_io() throws.
QuantizedIo give_float_border(Graph& graph);

// The batches with float tensors at those inputs quantized, for a program that takes integers.
BatchSource with_integers(BatchSource data, QuantizedIo io);

}  // namespace octet
