// Programs that take or give integers (`octet quantize --quantized-io`), beside those of floats.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>

#include "annotate/convert/quantized_io.h"
#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// Inputs and outputs become floats, quantized and dequantized within the program. Returns what was
// integers. Throws what read_quantized_io() throws.
QuantizedIo give_float_border(Graph& graph);

// Which inputs and outputs of a lowered program are integers that stand for reals, each with the
// whole range of its dtype.
QuantizedIo quantized_io_of(const Program& program);

// A batch with float tensors quantized at those inputs, for a program that takes integers.
std::vector<c10::IValue> with_integers(std::vector<c10::IValue> batch, const QuantizedIo& io);

// A batch, or outputs, with the integers there dequantized.
std::vector<c10::IValue> with_reals(std::vector<c10::IValue> values,
                                    const std::vector<QuantizedIoTensor>& integers);

}  // namespace octet
