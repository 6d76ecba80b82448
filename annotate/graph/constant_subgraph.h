// Finds the part of a graph that depends only on parameters, buffers and constants, and can be
// computed before any input arrives.
#pragma once

#include <unordered_set>

#include "core/graph/graph.h"

namespace octet {

// Constant inputs and the results of pure ops on them that no op writes to. Observer nodes count as
// pure. Dequantize ops and what follows them do not, so that stored quantized weights are kept.
std::unordered_set<const Value*> find_constant_values(const Graph& graph);

// Constant values and what pure ops create from no input (arange, zeros), also combined: everything
// that can be computed before any input arrives.
std::unordered_set<const Value*> find_input_free_values(const Graph& graph);

// Input-free values, dequantized weights and what pure ops compute from them: everything that is
// the same for all inputs.
std::unordered_set<const Value*> find_fixed_values(const Graph& graph);

// Constant values, computed at the first query. The graph must outlive this and not change.
class ConstantValues {
 public:
  explicit ConstantValues(const Graph& graph) : graph_(graph) {}
  bool contains(const Value* value);

 private:
  const Graph& graph_;
  std::optional<std::unordered_set<const Value*>> values_;
};

// A graph without user inputs that computes `wanted` (a subset of `constants`) and returns it in
// that order. It shares the constants' storage.
Graph extract_constant_part(const Graph& graph, const std::vector<const Value*>& wanted);

}  // namespace octet
