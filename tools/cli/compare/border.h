// Brings programs into a form in which they can be compared: integer inputs and outputs become
// floats (`octet quantize --quantized-io`), batch norms are folded as lower() does.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/ivalue.h>

#include "annotate/convert/quantized_io.h"
#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// Inputs and outputs become floats, quantized and dequantized within the program. Returns what was
// integers. Throws what read_quantized_io() throws.
QuantizedIo give_float_border(Graph& graph);

// Which inputs and outputs of a lowered program are quantized reals, each with the
// whole range of its dtype.
QuantizedIo quantized_io_of(const Program& program);

// A batch with float tensors quantized at those inputs, for a program that takes integers.
std::vector<c10::IValue> with_integers(std::vector<c10::IValue> batch, const QuantizedIo& io);

// A batch, or outputs, with the integers there dequantized.
std::vector<c10::IValue> with_reals(std::vector<c10::IValue> values,
                                    const std::vector<QuantizedIoTensor>& integers);

// A copy in which batch norms that the program has no op for are folded into the convolutions and
// linears before them, as lower() does: the values that are left stand for the same tensors.
std::unique_ptr<Graph> fold_as_lowered(const Graph& graph, const Program& program);

}  // namespace octet
