// Makes programs comparable: integer inputs and outputs become floats (`octet quantize
// --quantized-io`), and batch norms are folded as lower() does.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/ivalue.h>

#include "annotate/convert/quantized_io.h"
#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// Makes inputs and outputs floats, which the program quantizes and dequantizes. Returns those that
// were integers. Throws what read_quantized_io() throws.
QuantizedIo give_float_border(Graph& graph);

// The inputs and outputs of a lowered program that are quantized, each with the whole range of its
// dtype.
QuantizedIo quantized_io_of(const Program& program);

// Quantizes the float tensors of a batch for a program with integer inputs.
std::vector<c10::IValue> with_integers(std::vector<c10::IValue> batch, const QuantizedIo& io);

// Dequantizes the integers in a batch or in outputs.
std::vector<c10::IValue> with_reals(std::vector<c10::IValue> values,
                                    const std::vector<QuantizedIoTensor>& integers);

// Returns a copy in which batch norms that the program has no op for are folded into the
// convolution or linear before them, as lower() does. The remaining values correspond to tensors of
// the program.
std::unique_ptr<Graph> fold_as_lowered(const Graph& graph, const Program& program);

}  // namespace octet
