// Makes the inputs on which the program of a cell runs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

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

}  // namespace octet::conformance
