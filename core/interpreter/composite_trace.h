// Finds the ops that a LibTorch op is composed of, by running its C++ kernel on tensors without
// data and recording what it calls. Many ops have a kernel that only calls other ops
// (CompositeImplicitAutograd and similar dispatch keys).
#pragma once

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace c10 {
struct FunctionSchema;
}

namespace octet {

// A recorded call. Tensors are on the device "meta" and represent values: the same tensor is the
// same value.
struct TracedCall {
  // "aten.sub.Tensor"; squeeze_, which changes the tensor's shape, is recorded as
  // "aten.squeeze.dim"
  std::string target;
  const c10::FunctionSchema* schema = nullptr;
  std::vector<c10::IValue> arguments;  // one per schema argument
  std::vector<c10::IValue> results;
  std::vector<TensorMeta> metas;  // of the result tensors; lists are flattened
};

struct CompositeTrace {
  std::vector<c10::IValue> inputs;   // one per requested value
  std::vector<TracedCall> calls;     // in order
  std::vector<c10::IValue> results;  // one per result of the op
};

// The ops that `node` is composed of, down to ops for which `is_known` holds. `inputs`: the tensors
// that it reads, each with a meta of fixed sizes. Nothing for other ops, and when the kernel calls
// an op that is neither known nor composed, or needs data.
std::optional<CompositeTrace> trace_composite(
    const Node& node, const std::vector<Value*>& inputs,
    const std::function<bool(const std::string& target)>& is_known);

// The metas of the results of a node, as the op computes them from tensors without data. Nothing
// for ops that need data or that LibTorch does not know, and where an input has open sizes, an
// unknown shape, or is not a tensor.
std::optional<std::vector<TensorMeta>> find_result_metas(const Node& node);

}  // namespace octet
