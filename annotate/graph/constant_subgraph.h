// The part of a graph that depends on parameters, buffers and constants alone: it can be computed
// before any data comes.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// Constant inputs and results of pure ops on them, as far as no op writes to them. Observer nodes
// count as pure; dequantize ops do not, nor what follows them, so that stored quantized weights
// stay as they are.
std::unordered_set<const Value*> find_constant_values(const Graph& graph);

// Those and what pure ops make of nothing (arange, zeros), also together: all that can be computed
// before any input comes.
std::unordered_set<const Value*> find_input_free_values(const Graph& graph);

// Constant values, found when first asked for. The graph must outlive it and stay as it is.
class ConstantValues {
 public:
  explicit ConstantValues(const Graph& graph) : graph_(graph) {}
  bool contains(const Value* value);

 private:
  const Graph& graph_;
  std::optional<std::unordered_set<const Value*>> values_;
};

// A graph without user inputs that computes `wanted` (a subset of `constants`) and returns them in
// that order. It shares the constants' storage.
Graph extract_constant_part(const Graph& graph, const std::vector<const Value*>& wanted);

}  // namespace octet
