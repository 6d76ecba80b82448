#include "tools/python/torch/graph_view.h"

#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/base/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {

template <typename Kind>
Kind& View<Kind>::operator*() const {
  if (scope_->graph == nullptr)
    throw Error("annotate", "the graph",
                "is looked at after annotate() has returned; keep names instead");
  return *kind_;
}
template class View<Node>;
template class View<Value>;
template class View<Graph>;

namespace {

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

// A literal; `fallback` for values, lists of values, and types that Python lacks.
nb::object literal_of(const Argument& argument, const nb::object& fallback) {
  if (argument.is_none()) return nb::none();
  if (const auto* value = argument.find<int64_t>()) return nb::cast(*value);
  if (const auto* value = argument.find<double>()) return nb::cast(*value);
  if (const auto* value = argument.find<bool>()) return nb::cast(*value);
  if (const auto* value = argument.find<std::string>()) return nb::cast(*value);
  if (const auto* value = argument.find<std::vector<int64_t>>()) return nb::cast(*value);
  if (const auto* value = argument.find<std::vector<double>>()) return nb::cast(*value);
  if (const auto* value = argument.find<DType>()) return nb::cast(std::string(name_of(*value)));
  return fallback;
}

nb::object argument_of(const NodeView& node, const std::string& name, const nb::object& fallback) {
  const Argument* argument = node->find_argument(name);
  return argument == nullptr ? fallback : literal_of(*argument, fallback);
}

std::string module_of(const NodeView& node) {
  const std::vector<ModuleFrame> stack = module_stack(*node);
  return stack.empty() ? "" : stack.back().path;
}

std::optional<std::string> fqn_of(const ValueView& value) {
  const GraphInput* input = value->graph().find_input(&*value);
  return input == nullptr || input->fqn.empty() ? std::nullopt : std::optional(input->fqn);
}

nb::object shape_of(const ValueView& value) {
  if (!value->meta) return nb::none();
  nb::list sizes;
  for (const Dim& dim : value->meta->sizes)
    if (dim.is_symbolic())
      sizes.append(nb::none());
    else
      sizes.append(dim.value);
  return nb::tuple(sizes);
}

void bind_node(nb::module_& module) {
  nb::class_<NodeView>(module, "Node", "A call of an op, as a Quantizer sees it.")
      .def_prop_ro(
          "name", [](const NodeView& node) { return node->name(); }, "Unique in its graph.")
      .def_prop_ro(
          "target", [](const NodeView& node) { return node->target(); }, "\"aten.conv2d.default\"")
      .def_prop_ro("module", module_of, "The path of the innermost module, or \"\".")
      .def(
          "is_op", [](const NodeView& node, const std::string& op) { return node->is(op); }, "op"_a,
          "Whether it is that op in any overload: node.is_op(\"aten.relu\").")
      .def_prop_ro(
          "inputs", [](const NodeView& node) { return views_of(node.scope(), node->inputs()); },
          "The values that it reads, each once.")
      .def_prop_ro(
          "outputs", [](const NodeView& node) { return views_of(node.scope(), node->outputs()); },
          "The values that it defines.")
      .def_prop_ro(
          "output",
          [](const NodeView& node) { return view_of(node.scope(), node->output_or_null()); },
          "The only value that it defines, or None.")
      .def(
          "input",
          [](const NodeView& node, const std::string& name) {
            return view_of(node.scope(), node->find_input(name));
          },
          "name"_a, "The value of an argument of the op's schema (\"weight\"), or None.")
      .def("argument", argument_of, "name"_a, "default"_a = nb::none(),
           nb::sig("def argument(self, name: str, default: typing.Any = None) -> typing.Any"),
           "The number, string or list of them that an argument has; `default` when the call left "
           "it out.")
      .def(
          "__eq__", [](const NodeView& a, const NodeView& b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](const NodeView& node) { return node.hash(); })
      .def("__repr__", [](const NodeView& node) {
        return fmt::format("%{} ({})", node->name(), node->target());
      });
}

void bind_value(nb::module_& module) {
  nb::class_<ValueView>(module, "Value", "A result of a node, or an input of the program.")
      .def_prop_ro(
          "name", [](const ValueView& value) { return value->name(); }, "Unique in its graph.")
      .def_prop_ro(
          "producer",
          [](const ValueView& value) { return view_of(value.scope(), value->producer()); },
          "The node that defines it; None for an input.")
      .def_prop_ro(
          "users", [](const ValueView& value) { return views_of(value.scope(), value->users()); },
          "The nodes that read it.")
      .def_prop_ro(
          "is_output", [](const ValueView& value) { return value->is_output(); },
          "Whether the program returns it.")
      .def_prop_ro(
          "is_constant",
          [](const ValueView& value) { return value->graph().find_constant(&*value) != nullptr; },
          "Whether it is a parameter, a buffer or a constant.")
      .def_prop_ro("fqn", fqn_of, "Of a parameter, buffer or constant: its name in the module.")
      .def_prop_ro(
          "dtype",
          [](const ValueView& value) {
            return value->meta ? std::optional(std::string(name_of(value->meta->dtype)))
                               : std::nullopt;
          },
          "\"float32\", ...; None if it is not a tensor.")
      .def_prop_ro("shape", shape_of, nb::sig("def shape(self) -> tuple[int | None, ...] | None"),
                   "None for a size that is open.")
      .def(
          "__eq__", [](const ValueView& a, const ValueView& b) { return a == b; },
          nb::is_operator())
      .def("__hash__", [](const ValueView& value) { return value.hash(); })
      .def("__repr__", [](const ValueView& value) { return "%" + value->name(); });
}

}  // namespace

void bind_graph_view(nb::module_& module) {
  bind_node(module);
  bind_value(module);
  nb::class_<GraphView>(module, "GraphView", "The program that a Quantizer annotates.")
      .def_prop_ro(
          "nodes", [](const GraphView& graph) { return views_of(graph.scope(), graph->nodes()); },
          "In the order in which they run.")
      .def(
          "find_value",
          [](const GraphView& graph, const std::string& name) {
            return view_of(graph.scope(), graph->find_value(name));
          },
          "name"_a, "The value of that name, or None.")
      .def(
          "find_node",
          [](const GraphView& graph, const std::string& name) {
            return view_of(graph.scope(), graph->find_node(name));
          },
          "name"_a, "The node of that name, or None.");
}

}  // namespace octet::python
