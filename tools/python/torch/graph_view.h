// The graph as a Quantizer of Python's sees it while it annotates: nodes and values that know when
// that is over.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "core/graph/graph.h"

namespace octet::python {

// How long views may be looked at.
struct Scope {
  Graph* graph = nullptr;  // null: annotate() has returned
};

template <typename Kind>
class View {
 public:
  View(std::shared_ptr<Scope> scope, Kind* kind) : scope_(std::move(scope)), kind_(kind) {}
  // Throws Error("annotate", ...) once the graph may be gone.
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

// Node, Value and the graph: octet.Node, octet.Value, octet.GraphView.
void bind_graph_view(nanobind::module_& module);

}  // namespace octet::python
