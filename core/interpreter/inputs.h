// Whether a caller's inputs are the ones that a graph was exported for.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// The inputs that a caller gives: kUserInput and kConstant, in the graph's order.
std::vector<const GraphInput*> caller_inputs(const Graph& graph);

// Throws Error("run", ...) unless `inputs` has one value for each of caller_inputs(graph), equal to
// the literal of each constant; with check_shapes also unless dtype, rank and sizes are the
// exported ones, symbolic sizes within their range and equal where the symbol is.
void check_inputs(const Graph& graph, const std::vector<c10::IValue>& inputs, bool check_shapes);

// The constants of a graph while it runs.

// As torch tensors. What is written to is first replaced by a copy, storage by storage, so that
// views, tied weights and the tensors already made from it see the write, and the graph's bytes do
// not.
class Constants {
 public:
  explicit Constants(const Graph& graph);

  const at::Tensor* find(const std::string& fqn) const;  // null when there is none
  // To be called before anything writes into `tensor`.
  void before_write(const at::Tensor& tensor);
  // Takes back what was written.
  void reset();

 private:
  std::unordered_map<const Storage*, c10::Storage> storages_;
  std::unordered_map<c10::StorageImpl*, std::shared_ptr<Storage>> shared_;
  std::unordered_set<c10::StorageImpl*> written_;
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace octet
