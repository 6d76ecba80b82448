// Makes the inputs of a cell of `octet conformance`, runs it, and turns an exception into a wrong
// result.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include "backends/conformance/conformance.h"
#include "core/graph/graph.h"

namespace octet::conformance {

// Draws batches for a graph. If the graph is from a file with example inputs, the first batch is
// the example, and tensors of the others have elements of it, so that indices stay in range. Floats
// that are the same everywhere, like torch.zeros, do not count as an example. Without an example,
// floats are normal, integers below 10, and a bool is the same everywhere and another in the next
// batch. The same generator gives the same bits.
class CellInputs {
 public:
  // The graph must outlive this.
  CellInputs(const Graph& graph, at::Generator generator);

  // The shape of the tensor at this position among the inputs.
  using ShapeOf = std::function<std::vector<int64_t>(size_t input, const TensorMeta& meta)>;
  // One value for each input that Interpreter::run takes. shape_of: instead of the exported sizes.
  // Throws Error("conformance", input, ...) for a number in a file without an example.
  std::vector<c10::IValue> next(const ShapeOf& shape_of = {});

 private:
  c10::IValue draw(size_t input, const TensorMeta& meta, const std::vector<int64_t>& shape);

  const Graph& graph_;
  at::Generator generator_;
  std::optional<std::vector<c10::IValue>> example_;
  size_t batch_ = 0;
};

// The result that `run` fills in, with its time. An exception makes the cell wrong; the program
// that `run` sets is kept for cells that do not pass. Throws nothing.
CellResult judge_cell(const std::string& name, const std::string& kind,
                      const std::function<void(CellResult& result)>& run);

using Batches = std::vector<std::vector<c10::IValue>>;
using RunBatch = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>&)>;

// Runs the graph with LibTorch. The graph must outlive the result.
RunBatch interpreted(const Graph& graph);
// The outputs of each batch. `run` gets copies of the inputs.
Batches run_all(const Batches& batches, const RunBatch& run);

// The signal-to-noise ratio in dB of the worst floating-point output, over all batches; infinite
// without one. Outputs that vanish on both sides do not count.
double least_sqnr(const Batches& want, const Batches& got);
// Throws Error("conformance", "close", ...) if that is below `least`. what: "the lowered outputs".
void check_close(const char* what, const Batches& want, const Batches& got, double least);

}  // namespace octet::conformance
