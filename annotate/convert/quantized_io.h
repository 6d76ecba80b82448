// Quantized inputs and outputs: the caller gives and gets integers, the quantize and dequantize ops
// at the program's border go.
//
//   graph(%x: f32[4]):                                graph(%x: i8[4]):
//     %q: i8[4] = quantize_per_tensor(%x, 0.1, ...)     %d: f32[4] = dequantize_per_tensor(%x, ...)
//     %d: f32[4] = dequantize_per_tensor(%q, ...)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// One input or output that is an integer tensor now: real = scale * (q - zero_point), q in
// [quant_min, quant_max].
struct QuantizedIoTensor {
  // among the flattened inputs that a caller gives, or among the user outputs (those that update
  // buffers don't count)
  size_t index = 0;
  std::string name;  // of the integer Value
  double scale = 1;
  int64_t zero_point = 0;
  int64_t quant_min = 0;
  int64_t quant_max = 0;
  DType dtype = DType::kInt8;
  bool operator==(const QuantizedIoTensor&) const = default;
};

struct QuantizedIo {
  std::vector<QuantizedIoTensor> inputs, outputs;  // by ascending index
  bool empty() const { return inputs.empty() && outputs.empty(); }
};

// Which are to become integers. Nothing: all that can, and the report has a note with the reason
// for each float tensor that cannot. A list: just these, and one that cannot be is an Error.
struct QuantizedIoOptions {
  std::optional<std::vector<size_t>> inputs, outputs;
};

// Edits a converted graph. An input qualifies when all that read it (but for its sizes) are
// quantize_per_tensor ops with the same numbers; an output when a dequantize_per_tensor with
// numbers makes it. Inputs that are returned or written, and outputs that are written in place or
// into a buffer, stay float. Throws Error for an index that is listed and absent, or listed and not
// able; the graph is then as it was.
QuantizedIo quantize_io(Graph& graph, const QuantizedIoOptions& options, Report& report);

// {"inputs": [{"index", "name", "scale", "zero_point", "quant_min", "quant_max", "dtype"}],
// "outputs": [...]}, with a line end.
std::string to_json_text(const QuantizedIo& io);

// Puts that JSON into the archive as the extra file "quantized_io.json" (torch.export.load's
// extra_files) and, when an input changed its dtype, drops the example inputs, which are float.
void store_quantized_io(Graph& graph, const QuantizedIo& io);
// What store_quantized_io() put there; nothing when the program has no such file.
std::optional<std::string> stored_quantized_io(const Graph& graph);
// The same as it was given to store_quantized_io(); nothing when there is none. Throws
// Error("quantized-io", file, ...) when it is no such JSON, or not of this graph.
QuantizedIo read_quantized_io(const Graph& graph);

// Takes quantize_io() back: inputs and outputs are floats again, with a quantize op behind each
// such input and a dequantize op in front of each such output.
void restore_float_io(Graph& graph, const QuantizedIo& io);

}  // namespace octet
