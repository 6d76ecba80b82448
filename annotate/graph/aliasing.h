// Who writes to the memory of a value, and where; core/ops/memory.h has who shares it.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/memory.h"

namespace octet {

// Values whose memory a node of the graph writes to, parameters and buffers among them: their
// content depends on when one looks.
std::unordered_set<const Value*> overwritten_values(const Graph& graph);

// The in-place writes of a graph, as it was when this was made.
class Writes {
 public:
  explicit Writes(const Graph& graph);
  // Whether a node behind `from` (null: the graph's begin) and in front of `to` writes to the
  // memory of `value`.
  bool any_between(const Value& value, const Node* from, const Node& to) const;

 private:
  void find_roots();
  std::vector<const Value*> roots_of(const Value& value) const;

  const Graph& graph_;
  // of results that are no new tensors
  std::unordered_map<const Value*, std::vector<const Value*>> roots_;
  // by memory root, in graph order
  std::unordered_map<const Value*, std::vector<const Node*>> writes_;
};

}  // namespace octet
