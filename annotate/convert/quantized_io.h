// Makes inputs and outputs of a converted program integers, by removing the quantize and dequantize
// ops at its border; the caller then gives and gets integers.
//
//   graph(%x: f32[4]):                                graph(%x: i8[4]):
//     %q: i8[4] = quantize_per_tensor(%x, 0.1, ...)     %d: f32[4] = dequantize_per_tensor(%x, ...)
//     %d: f32[4] = dequantize_per_tensor(%q, ...)
#pragma once

#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

// An input or output that is now an integer tensor: real = scale * (q - zero_point), q in
// [quant_min, quant_max].
struct QuantizedIoTensor {
  // position among the caller's flattened inputs, or among the user outputs (those that update
  // buffers do not count)
  size_t index = 0;
  std::string name;  // name of the integer Value
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

// Which inputs or outputs to convert. Nothing: all that can be, with a note for each float tensor
// that cannot. A list: exactly these; one that cannot be converted is an Error.
struct QuantizedIoOptions {
  std::optional<std::vector<size_t>> inputs, outputs;
};

// Edits a converted graph. An input qualifies when everything that reads it, except for its sizes,
// is a quantize_per_tensor op with the same literals; an output when a dequantize_per_tensor op
// with literals produces it. Inputs that are returned or written, and outputs that are written in
// place or into a buffer, stay float. Throws Error for a listed index that does not exist or does
// not qualify, and leaves the graph unchanged.
QuantizedIo quantize_io(Graph& graph, const QuantizedIoOptions& options, Report& report);

// {"inputs": [{"index", "name", "scale", "zero_point", "quant_min", "quant_max", "dtype"}],
// "outputs": [...]}, with a line feed at the end.
std::string to_json_text(const QuantizedIo& io);

// Stores that JSON in the archive as the extra file "quantized_io.json" (extra_files of
// torch.export.load). Drops the example inputs, which are float, when the dtype of an input has
// changed.
void store_quantized_io(Graph& graph, const QuantizedIo& io);
// The text that store_quantized_io() stored; nothing when there is none.
std::optional<std::string> stored_quantized_io(const Graph& graph);
// Reads what store_quantized_io() stored; empty when there is none. Throws Error("quantized-io",
// file, ...) when it is not such JSON or does not fit the graph.
QuantizedIo read_quantized_io(const Graph& graph);

// Reverts quantize_io(): inputs and outputs become floats again, with a quantize op after each such
// input and a dequantize op before each such output.
void restore_float_io(Graph& graph, const QuantizedIo& io);

}  // namespace octet
