#include "tools/python/torch/annotations.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/rules/annotation_rule.h"
#include "core/base/error.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/specs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

Node& node_in(const std::shared_ptr<Scope>& scope, const NodeView& view) {
  graph_of(*scope);
  Node& node = *view;
  if (view.scope() != scope)
    throw Error("annotate", "%" + node.name(),
                "is a node of another graph; take nodes from the graph of this call");
  return node;
}

Value& value_of(nb::handle key) {
  if (nb::isinstance<ValueView>(key)) return *nb::cast<ValueView>(key);
  throw Error(
      "annotate", "an annotation",
      fmt::format("got a spec for {}, want one for an octet.Value", text_of(nb::repr(key))));
}

nb::dict specs_in(nb::handle given, const char* name) {
  if (nb::isinstance<nb::dict>(given)) return nb::borrow<nb::dict>(given);
  throw Error("annotate", name,
              fmt::format("got {}, want a dict of values and specs", text_of(nb::repr(given))));
}

Annotations& open_annotations(const AnnotationsView& view) {
  graph_of(*view.scope);
  if (view.is_final)
    throw Error("annotate", "the annotations",
                fmt::format("are changed in {}; annotate in annotate()", view.scope->call));
  return *view.annotations;
}

void annotate_node(AnnotationsView& view, const NodeView& node_view, nb::handle inputs,
                   nb::handle output, const std::string& rule, bool allow_implicit_sharing) {
  Annotations& annotations = open_annotations(view);
  const Node& node = node_in(view.scope, node_view);
  const std::string subject = "%" + node.name();
  const std::vector<Value*> read = node.inputs();
  QuantizationAnnotation annotation;
  annotation.rule = rule;
  annotation.allow_implicit_sharing = allow_implicit_sharing;
  if (!inputs.is_none())
    for (const auto& [key, spec] : specs_in(inputs, "inputs")) {
      Value& value = value_of(key);
      if (spec.is_none()) continue;
      if (std::find(read.begin(), read.end(), &value) == read.end())
        throw Error("annotate", subject,
                    fmt::format("does not read %{}; annotate a node that does", value.name()));
      annotation.set_input(&value, spec_of(spec, subject));
    }
  if (nb::isinstance<nb::dict>(output)) {
    for (const auto& [key, spec] : specs_in(output, "output")) {
      Value& value = value_of(key);
      if (value.producer() != &node)
        throw Error("annotate", subject,
                    fmt::format("does not define %{}; want one of its results", value.name()));
      if (!spec.is_none()) annotation.set_output(&value, spec_of(spec, subject));
    }
  } else if (!output.is_none()) {
    annotation.output_qspec = spec_of(output, subject);
  }
  annotations[&node] = std::move(annotation);
}

nb::object find_annotation(const AnnotationsView& view, const NodeView& node) {
  const QuantizationAnnotation* found = view.annotations->find(&node_in(view.scope, node));
  if (found == nullptr) return nb::none();
  nb::dict inputs;
  for (const auto& [value, spec] : found->input_qspec_map)
    inputs[nb::cast(ValueView(view.scope, value))] = object_of(spec, view.scope);
  nb::object output = nb::none();
  if (found->output_qspec) output = object_of(*found->output_qspec, view.scope);
  if (!found->output_qspec_map.empty()) {
    nb::dict outputs;
    for (Value* result : node->outputs())
      if (const SpecVariant* spec = found->find_output(result))
        outputs[nb::cast(ValueView(view.scope, result))] = object_of(*spec, view.scope);
    output = outputs;
  }
  return nb::module_::import_("octet._quantizer")
      .attr("Annotation")(inputs, output, found->rule, found->allow_implicit_sharing);
}

int share(const AnnotationsView& view, const std::vector<std::string>& ops, nb::handle accepts) {
  Annotations& annotations = open_annotations(view);
  Graph& graph = graph_of(*view.scope);
  std::function<bool(const Node&)> filter;
  if (!accepts.is_none())
    filter = [&](const Node& node) {
      return nb::cast<bool>(nb::bool_(accepts(NodeView(view.scope, graph.find_node(node.name())))));
    };
  return propagate_sharing(graph, ops, filter, annotations);
}

}  // namespace

void bind_annotations(nb::module_& module) {
  nb::class_<AnnotationsView>(module, "Annotations", "The annotations of a program, by node.")
      .def("annotate", annotate_node, "node"_a, nb::kw_only(), "inputs"_a = nb::none(),
           "output"_a = nb::none(), "rule"_a = "", "allow_implicit_sharing"_a = true,
           nb::sig(
               "def annotate(self, node: Node, *, inputs: dict[Value, typing.Any] | None = None, "
               "output: typing.Any = None, rule: str = '', allow_implicit_sharing: bool = True) "
               "-> None"),
           "The specs of the values that a node reads and of the one that it gives; what has none "
           "stays float. output: with several results, a spec for each floating-point one, or a "
           "dict[Value, spec]. rule: what reports call it.")
      .def(
          "is_annotated",
          [](const AnnotationsView& view, const NodeView& node) {
            return view.annotations->is_annotated(&node_in(view.scope, node));
          },
          "node"_a, "Whether the node is annotated.")
      .def("find", find_annotation, "node"_a,
           nb::sig("def find(self, node: Node) -> octet._quantizer.Annotation | None"),
           "The annotation of a node, by this quantizer or an earlier one of the list, or None.")
      .def("propagate_sharing", share, "ops"_a, "accepts"_a = nb::none(),
           nb::sig("def propagate_sharing(self, ops: list[str], accepts: "
                   "collections.abc.Callable[[Node], bool] | None = None) -> int"),
           "Lets ops such as \"aten.max_pool2d\" share the scale of their input when the op before "
           "them has an output spec. Returns the number of nodes annotated.");
  nb::class_<ReportView>(module, "AnnotationReport", "What a Quantizer says.")
      .def(
          "float_op",
          [](ReportView& view, const NodeView& node_view, const std::string& reason) {
            const Node& node = node_in(view.scope, node_view);
            const std::vector<ModuleFrame> stack = module_stack(node);
            view.report->add({"annotate", node.name(), node.target(),
                              stack.empty() ? "" : stack.back().path, reason});
          },
          "node"_a, "reason"_a, "Records that an op stays float, and why.")
      .def(
          "note",
          [](ReportView& view, const std::string& text) {
            graph_of(*view.scope);
            view.report->note(text);
          },
          "text"_a, "A remark.");
}

}  // namespace octet::python
