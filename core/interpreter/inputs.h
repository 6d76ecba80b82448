// Checks a caller's inputs against those that a graph was exported for, and holds a graph's
// constants while it runs.
#pragma once

#include <unordered_set>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// The inputs that a caller passes: kUserInput and kConstant, in the graph's order.
std::vector<const GraphInput*> caller_inputs(const Graph& graph);

// Whether the export recorded the input as a literal (None, a number), which no call can change.
bool is_literal(const GraphInput& input);
// These among the caller_inputs(): positions and values.
std::vector<std::pair<size_t, c10::IValue>> literal_inputs(const Graph& graph);

// "s77" for "Symbol('s77', positive=True, integer=True)"; "" for larger expressions.
std::string symbol_name(const std::string& expr);
// The size of an input that is a symbol: "dimension 0 of input 0 (%x)", or "" if there is none.
std::string origin_of_symbol(const Graph& graph, const std::string& name);

// Throws Error("run", ...) unless `inputs` has one value per caller_inputs(graph) and constants
// equal their literals; with check_shapes also unless dtype, rank and sizes are the exported ones,
// with symbolic sizes within their range and equal where the symbol is the same.
void check_inputs(const Graph& graph, const std::vector<c10::IValue>& inputs, bool check_shapes);

// The constants of a graph as torch tensors. Before a write the storage is replaced by a copy, so
// that views, tied weights and tensors made earlier see the write and the graph's bytes stay
// unchanged.
class Constants {
 public:
  explicit Constants(const Graph& graph);

  const at::Tensor* find(const std::string& fqn) const;  // null when unknown
  // Call before anything writes into `tensor`.
  void before_write(const at::Tensor& tensor);
  // Reverts all writes.
  void reset();

 private:
  std::unordered_map<const Storage*, c10::Storage> storages_;
  std::unordered_map<c10::StorageImpl*, std::shared_ptr<Storage>> shared_;
  std::unordered_set<c10::StorageImpl*> written_;
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace octet
