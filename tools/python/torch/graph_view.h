// Shows the graph to a quantizer written in Python while it annotates. Nodes and values become
// invalid when annotate() returns.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "core/graph/graph.h"

namespace octet::python {

// The lifetime of views.
struct Scope {
  Graph* graph = nullptr;  // null: annotate() has returned
};

template <typename Kind>
class View {
 public:
  View(std::shared_ptr<Scope> scope, Kind* kind) : scope_(std::move(scope)), kind_(kind) {}
  // Throws Error("annotate", ...) after annotate() has returned.
  Kind& operator*() const;
  Kind* operator->() const { return &**this; }
  const std::shared_ptr<Scope>& scope() const { return scope_; }
  bool operator==(const View& other) const { return kind_ == other.kind_; }
  size_t hash() const { return std::hash<const void*>()(kind_); }

 private:
  std::shared_ptr<Scope> scope_;
  Kind* kind_;
};

using NodeView = View<Node>;
using ValueView = View<Value>;
using GraphView = View<Graph>;

// Adds octet.Node, octet.Value and octet.GraphView to the module.
void bind_graph_view(nanobind::module_& module);

}  // namespace octet::python
