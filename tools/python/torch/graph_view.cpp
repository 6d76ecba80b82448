#include "tools/python/torch/graph_view.h"

#include <optional>
#include <unordered_set>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/pattern/pattern.h"
#include "quantizers/common/source_partitions.h"
#include "tools/python/torch/annotations.h"
#include "tools/python/torch/data.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {

Graph& graph_of(const Scope& scope) {
  if (scope.graph == nullptr)
    throw Error("annotate", "the graph",
                fmt::format("is looked at after {} has returned; keep names instead", scope.call));
  return *scope.graph;
}

namespace {

const Node* find_in(const Graph& graph, const std::string& name, const Node*) {
  return graph.find_node(name);
}
const Value* find_in(const Graph& graph, const std::string& name, const Value*) {
  return graph.find_value(name);
}

}  // namespace

template <typename Kind>
View<Kind>::View(std::shared_ptr<Scope> scope, Kind* kind)
    : scope_(std::move(scope)), kind_(kind), name_(kind->name()) {}

template <typename Kind>
Kind& View<Kind>::operator*() const {
  if (find_in(graph_of(*scope_), name_, kind_) != kind_)
    throw Error("annotate", "%" + name_, "is not in the graph any more; it was erased or renamed");
  return *kind_;
}
template class View<Node>;
template class View<Value>;

namespace {

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

ModuleFrame innermost_module(const NodeView& node) {
  const std::vector<ModuleFrame> stack = module_stack(*node);
  return stack.empty() ? ModuleFrame() : stack.back();
}

std::vector<std::pair<std::string, std::string>> stack_of(const NodeView& node) {
  std::vector<std::pair<std::string, std::string>> stack;
  for (ModuleFrame& frame : module_stack(*node))
    stack.emplace_back(std::move(frame.path), std::move(frame.type));
  return stack;
}

std::optional<std::string> fqn_of(const ValueView& value) {
  const GraphInput* input = value->graph().find_input(&*value);
  return input == nullptr || input->fqn.empty() ? std::nullopt : std::optional(input->fqn);
}

nb::object tensor_of(const ValueView& value) {
  const Tensor* constant = value->graph().find_constant(&*value);
  return constant == nullptr ? nb::none() : to_torch(to_aten(constant->clone()));
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
      .def_prop_ro(
          "module", [](const NodeView& node) { return innermost_module(node).path; },
          "The path of the innermost module, or \"\".")
      .def_prop_ro(
          "module_type", [](const NodeView& node) { return innermost_module(node).type; },
          "The class of the innermost module (\"torch.nn.modules.conv.Conv2d\"), or \"\".")
      .def_prop_ro("module_stack", stack_of,
                   "(path, class) of each module around it, outermost first.")
      .def_prop_ro(
          "metadata", [](const NodeView& node) { return node->metadata; },
          "What torch.export recorded: \"stack_trace\" (the lines of the model), \"torch_fn\", ...")
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
      .def_prop_ro("tensor", tensor_of, nb::sig("def tensor(self) -> torch.Tensor | None"),
                   "A copy of a parameter, buffer or constant; None for other values.")
      .def_prop_ro("shape", shape_of, nb::sig("def shape(self) -> tuple[int | None, ...] | None"),
                   "None for a size that is open.")
      .def(
          "__eq__", [](const ValueView& a, const ValueView& b) { return a == b; },
          nb::is_operator())
      .def("__hash__", [](const ValueView& value) { return value.hash(); })
      .def("__repr__", [](const ValueView& value) { return "%" + value->name(); });
}

// The places of a pattern in the graph, without overlaps and nodes of `taken`: longer forms of the
// pattern first, then in graph order.
std::vector<Match> matches_of(const Graph& graph, const Pattern& pattern,
                              std::unordered_set<const Node*> taken) {
  std::vector<Match> matches;
  for (const PatternVariant& variant : pattern.variants)
    for (Node* node : graph.nodes()) {
      std::optional<Match> found = match(variant, *node);
      if (!found || std::any_of(found->nodes.begin(), found->nodes.end(),
                                [&](const Node* inner) { return taken.contains(inner); }))
        continue;
      taken.insert(found->nodes.begin(), found->nodes.end());
      matches.push_back(std::move(*found));
    }
  return matches;
}

nb::object object_of(const Match& match, const Pattern& pattern, const GraphView& graph) {
  nb::dict values;
  nb::dict consumers;
  for (const auto& [name, bound] : match.bindings) {
    const PatternVariable* variable = pattern.find_variable(name);
    const bool is_list = variable != nullptr && variable->is_list;
    values[name.c_str()] = is_list ? nb::cast(views_of(graph.scope, bound))
                                   : nb::cast(ValueView(graph.scope, bound.front()));
    if (Node* consumer = match.consumer(name))
      consumers[name.c_str()] = NodeView(graph.scope, consumer);
  }
  return nb::module_::import_("octet._quantizer")
      .attr("Match")(NodeView(graph.scope, match.root), views_of(graph.scope, match.nodes), values,
                     consumers);
}

nb::list match_pattern(const GraphView& graph, const std::string& text,
                       const AnnotationsView* annotations) {
  const Pattern pattern = parse_pattern(text);
  std::unordered_set<const Node*> taken;
  if (annotations != nullptr && &graph_of(*annotations->scope) == &*graph)
    for (const Node* node : graph->nodes())
      if (annotations->annotations->is_annotated(node)) taken.insert(node);
  nb::list matches;
  for (const Match& match : matches_of(*graph, pattern, std::move(taken)))
    matches.append(object_of(match, pattern, graph));
  return matches;
}

nb::list partitions_of(const GraphView& graph, const std::vector<std::string>& sources) {
  nb::list result;
  for (const SourcePartition& partition : find_source_partitions(*graph, sources))
    result.append(nb::module_::import_("octet._quantizer")
                      .attr("SourcePartition")(views_of(graph.scope, partition.nodes),
                                               views_of(graph.scope, partition.output_nodes)));
  return result;
}

}  // namespace

void bind_graph_view(nb::module_& module) {
  bind_node(module);
  bind_value(module);
  nb::class_<GraphView> bound(module, "GraphView", "The program that a Quantizer annotates.");
  bound
      .def_prop_ro(
          "nodes", [](const GraphView& graph) { return views_of(graph.scope, graph->nodes()); },
          "In the order in which they run.")
      .def(
          "find_value",
          [](const GraphView& graph, const std::string& name) {
            return view_of(graph.scope, graph->find_value(name));
          },
          "name"_a, "The value of that name, or None.")
      .def(
          "find_node",
          [](const GraphView& graph, const std::string& name) {
            return view_of(graph.scope, graph->find_node(name));
          },
          "name"_a, "The node of that name, or None.")
      .def("match", match_pattern, "pattern"_a, "annotations"_a = nb::none(),
           nb::sig("def match(self, pattern: str, annotations: Annotations | None = None) -> "
                   "list[octet._quantizer.Match]"),
           "The places of a pattern such as \"relu?(conv2d(x, w, b?))\", in the notation of "
           "core/pattern/pattern.h: without overlaps, longer forms first. annotations: nodes that "
           "are annotated are left out, as rows of a table do.")
      .def("source_partitions", partitions_of, "sources"_a,
           nb::sig("def source_partitions(self, sources: list[str]) -> "
                   "list[octet._quantizer.SourcePartition]"),
           "The nodes that each call of these modules and functions became: "
           "[\"torch.nn.modules.linear.Linear\", \"linear\"].");
  bind_graph_edits(bound);
}

}  // namespace octet::python
