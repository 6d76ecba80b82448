// Which values share memory, and who writes to it.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// The inputs whose memory the results of `node` may be (views, in-place ops); all of them when the
// op is unknown to the dispatcher.
std::vector<const Value*> aliased_inputs(const Node& node);

// The values whose memory these may be, as far back as it goes: graph inputs and results of ops
// that make new tensors.
std::unordered_set<const Value*> memory_roots(std::vector<const Value*> values);

// The values that `node` writes to in place, detach_ excepted (it leaves the data alone).
std::vector<const Value*> written_values(const Node& node);

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
