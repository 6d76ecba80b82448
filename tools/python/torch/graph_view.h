// Shows the graph to a quantizer written in Python during a call of it. Nodes and values become
// invalid when the call returns, and when they are erased.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "core/graph/graph.h"

namespace octet::python {

// One call of a quantizer, during which views are valid.
struct Scope {
  Graph* graph = nullptr;  // null: the call has returned
  std::string call;        // "annotate()"
  bool may_edit = false;
};

// Opens a scope for as long as it exists.
class OpenScope {
 public:
  OpenScope(Graph& graph, std::string call, bool may_edit = false)
      : scope_(std::make_shared<Scope>(&graph, std::move(call), may_edit)) {}
  ~OpenScope() { scope_->graph = nullptr; }
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;
  const std::shared_ptr<Scope>& scope() const { return scope_; }

 private:
  std::shared_ptr<Scope> scope_;
};

// Throws Error("annotate", ...) after the call has returned.
Graph& graph_of(const Scope& scope);

template <typename Kind>
class View {
 public:
  View(std::shared_ptr<Scope> scope, Kind* kind);
  // Throws Error("annotate", ...) after the call has returned or the node or value was erased.
  Kind& operator*() const;
  Kind* operator->() const { return &**this; }
  const std::shared_ptr<Scope>& scope() const { return scope_; }
  bool operator==(const View& other) const { return kind_ == other.kind_; }
  size_t hash() const { return std::hash<const void*>()(kind_); }

 private:
  std::shared_ptr<Scope> scope_;
  Kind* kind_;
  std::string name_;  // by which the graph tells whether it still has it
};

using NodeView = View<Node>;
using ValueView = View<Value>;

struct GraphView {
  std::shared_ptr<Scope> scope;
  Graph& operator*() const { return graph_of(*scope); }
  Graph* operator->() const { return &graph_of(*scope); }
};

template <typename Kind>
std::vector<View<Kind>> views_of(const std::shared_ptr<Scope>& scope,
                                 const std::vector<Kind*>& all) {
  std::vector<View<Kind>> views;
  for (Kind* one : all) views.emplace_back(scope, one);
  return views;
}

template <typename Kind>
std::optional<View<Kind>> view_of(const std::shared_ptr<Scope>& scope, Kind* one) {
  return one == nullptr ? std::nullopt : std::optional(View<Kind>(scope, one));
}

// Add octet.Node, octet.Value and octet.GraphView to the module.
void bind_graph_view(nanobind::module_& module);
// Adds what edits the graph.
void bind_graph_edits(nanobind::class_<GraphView>& bound);

}  // namespace octet::python
