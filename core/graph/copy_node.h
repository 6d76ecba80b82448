// Copies of a node and of a value's facts of one graph in another.
#pragma once

#include <unordered_map>

#include "core/graph/graph.h"

namespace octet {

// Creates a node like `node`, nested subgraphs included, before `before` of `graph` (at its end
// when null). `map` gives the values of `graph` for those that the node reads, and receives its
// results. Names stay as they are where they are free.
Node* copy_node(const Node& node, Graph& graph, std::unordered_map<const Value*, Value*>& map,
                Node* before = nullptr);

// Gives `to` what `from` knows of itself besides kind and meta: its symbol with the hint, and the
// class of an opaque object. Returns `to`.
Value* clone_value_facts(const Value& from, Value* to);

}  // namespace octet
