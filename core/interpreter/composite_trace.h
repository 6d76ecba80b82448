// The ops that an op of LibTorch is composed of, found by its own C++ kernel: many have one that
// calls other ops alone (CompositeImplicitAutograd and its kin in the dispatcher). It runs on
// tensors without data, and what it calls is written down.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace c10 {
struct FunctionSchema;
}

namespace octet {

// Tensors are on the device "meta" and stand for values: the same tensor is the same value.
struct TracedCall {
  // "aten.sub.Tensor"; "aten.squeeze.dim" stands for squeeze_ too, which changes the tensor's shape
  std::string target;
  const c10::FunctionSchema* schema = nullptr;
  std::vector<c10::IValue> arguments;  // one for each of the schema's
  std::vector<c10::IValue> results;
  std::vector<TensorMeta> metas;  // of the results' tensors, those in lists one by one
};

struct CompositeTrace {
  std::vector<c10::IValue> inputs;   // one for each of the values asked for
  std::vector<TracedCall> calls;     // in order
  std::vector<c10::IValue> results;  // one for each result of the op
};

// What `node` is composed of, down to ops for which `is_known` holds. `inputs`: the tensors that it
// reads, each with a meta of fixed sizes. Nothing when it is no such op, or when the kernel comes
// upon an op that is neither known nor composed, or wants to see data.
std::optional<CompositeTrace> trace_composite(
    const Node& node, const std::vector<Value*>& inputs,
    const std::function<bool(const std::string& target)>& is_known);

}  // namespace octet
