// Tells which nodes write to the memory of a value and who sees the writes. Which values share
// memory: core/ops/memory.h.
#pragma once

#include <unordered_set>

#include "core/graph/graph.h"
#include "core/ops/memory.h"

namespace octet {

// Values whose memory a node of the graph writes to, parameters and buffers included. Their content
// depends on when they are read.
std::unordered_set<const Value*> overwritten_values(const Graph& graph);

// The in-place writes of a graph, as of construction, and who sees them.
class Writes {
 public:
  explicit Writes(const Graph& graph);
  // Whether `readers` may read a copy of `value` made right after `from` (null: at the start of the
  // graph) while all others read `value`. That holds when nobody reads one of the two memories
  // after a write to the other. A null reader is the graph's outputs. Parameters and buffers count
  // as read at the end of the graph; user inputs do not, as nobody reads an argument that a program
  // overwrites. Copies that are each allowed are also allowed together.
  bool allow_copy(const Value& value, const std::vector<const Node*>& readers,
                  const Node* from) const;

 private:
  // What one node, or the end of the graph (null), does to a value whose memory is written.
  struct Use {
    const Node* node;
    const Value* value;
    bool is_write;
    bool is_passed_on;  // the node's results share the memory
  };
  void find_roots();
  void find_uses();
  void add_use(const Use& use);
  bool allow_copy_of(const Value* root, const Value& value, const std::vector<const Node*>& readers,
                     size_t start) const;
  std::vector<const Value*> roots_of(const Value& value) const;

  const Graph& graph_;
  std::unordered_map<const Node*, size_t> order_;
  // for results that are not new tensors
  std::unordered_map<const Value*, std::vector<const Value*>> roots_;
  // by memory root, for written memory only, in graph order
  std::unordered_map<const Value*, std::vector<Use>> uses_;
};

}  // namespace octet
