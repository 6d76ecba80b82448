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

// The in-place writes of a graph, as it was when this was made, and who sees them.
class Writes {
 public:
  explicit Writes(const Graph& graph);
  // Whether `readers` may read a copy of `value`, made right behind `from` (null: at the graph's
  // begin), and all others go on to read `value`: nobody reads one of the two memories after a
  // write to the other. A null reader stands for the graph's outputs. Parameters and buffers are
  // read at the graph's end; user inputs are not, as nobody reads an argument that a program
  // overwrites. Copies that are allowed one by one are allowed together.
  bool allow_copy(const Value& value, const std::vector<const Node*>& readers,
                  const Node* from) const;

 private:
  // What one node, or the end of the graph (null), does to a value of memory that is written.
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
  // of results that are no new tensors
  std::unordered_map<const Value*, std::vector<const Value*>> roots_;
  // by memory root, of written memory alone, in graph order
  std::unordered_map<const Value*, std::vector<Use>> uses_;
};

}  // namespace octet
