// Edits of the graph by a quantizer written in Python, in transform_for_annotation() and in hooks.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/composite_trace.h"
#include "core/ops/op_schema.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/data.h"
#include "tools/python/torch/graph_view.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

Graph& editable(const GraphView& graph) {
  if (!graph.scope->may_edit)
    throw Error(
        "annotate", "the graph",
        fmt::format("is edited in {}; edit it in transform_for_annotation()", graph.scope->call));
  return *graph;
}

Value* value_in(const Graph& graph, const ValueView& view) {
  Value& value = *view;
  if (&value.graph() != &graph)
    throw Error("annotate", "%" + value.name(), "is a value of another graph");
  return &value;
}

[[noreturn]] void refuse_argument(const std::string& name, nb::handle given) {
  throw Error(
      "annotate", fmt::format("argument \"{}\"", name),
      fmt::format("got {}, want a Value, a number, a string, a torch.dtype, None, or a list "
                  "of values or of numbers",
                  text_of(nb::repr(given))));
}

template <typename Element>
std::vector<Element> elements_of(nb::handle list) {
  std::vector<Element> elements;
  for (nb::handle element : list) elements.push_back(nb::cast<Element>(element));
  return elements;
}

template <typename Kind>
bool holds_only(nb::handle list) {
  for (nb::handle element : list)
    if (!nb::isinstance<Kind>(element)) return false;
  return true;
}

Argument argument_of(const Graph& graph, const std::string& name, nb::handle given) {
  if (given.is_none()) return None{};
  if (nb::isinstance<ValueView>(given)) return value_in(graph, nb::cast<ValueView>(given));
  if (nb::isinstance<nb::bool_>(given)) return nb::cast<bool>(given);
  if (nb::isinstance<nb::int_>(given)) return nb::cast<int64_t>(given);
  if (nb::isinstance<nb::float_>(given)) return nb::cast<double>(given);
  if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
  if (const std::string text = text_of(given); text.starts_with("torch."))
    if (const std::optional<DType> dtype = find_dtype(text.substr(6))) return *dtype;
  if (!nb::isinstance<nb::list>(given) && !nb::isinstance<nb::tuple>(given))
    refuse_argument(name, given);
  if (nb::len(given) > 0 && holds_only<ValueView>(given)) {
    std::vector<Value*> values;
    for (nb::handle element : given)
      values.push_back(value_in(graph, nb::cast<ValueView>(element)));
    return values;
  }
  if (holds_only<nb::int_>(given)) return elements_of<int64_t>(given);
  if (holds_only<nb::float_>(given)) return elements_of<double>(given);
  refuse_argument(name, given);
}

ArgumentKind kind_of(const OpSchema* schema, const std::string& name) {
  const SchemaArgument* argument = schema == nullptr ? nullptr : schema->find(name);
  return argument != nullptr && argument->kwarg_only ? ArgumentKind::kKeyword
                                                     : ArgumentKind::kPositional;
}

NodeView insert(const GraphView& view, const std::string& target, const nb::dict& arguments,
                const std::optional<NodeView>& before, const std::optional<ValueView>& like,
                const std::optional<std::string>& name) {
  Graph& graph = editable(view);
  Node* place = before ? &**before : nullptr;
  if (place != nullptr && &place->graph() != &graph)
    throw Error("annotate", "%" + place->name(), "is a node of another graph");
  const OpSchema* schema = find_op_schema(target);
  std::vector<NamedArgument> given;
  for (const auto& [key, value] : arguments) {
    const std::string argument = text_of(key);
    given.push_back({argument, argument_of(graph, argument, value), kind_of(schema, argument)});
  }
  const size_t dot = target.find('.');
  const std::string base = name.value_or(
      dot == std::string::npos ? target
                               : target.substr(dot + 1, target.find('.', dot + 1) - dot - 1));
  const std::optional<TensorMeta> meta = like ? value_in(graph, *like)->meta : std::nullopt;
  Node* node = graph.insert(target, std::move(given), base, meta, place);
  if (meta) return {view.scope, node};
  const std::optional<std::vector<TensorMeta>> found = find_result_metas(*node);
  if (!found || found->size() != 1) {
    graph.erase(*node);
    throw Error("annotate", target,
                "the dtype and shape of its result are not known; give a value that has the same "
                "as `like`");
  }
  node->output()->meta = found->front();
  return {view.scope, node};
}

void erase(const GraphView& view, const NodeView& node) {
  Graph& graph = editable(view);
  for (const Value* output : node->outputs())
    if (!output->is_unused())
      throw Error(
          "annotate", "%" + node->name(),
          fmt::format("is erased while %{} is used; call replace_uses() first", output->name()));
  if (&node->graph() != &graph)
    throw Error("annotate", "%" + node->name(), "is a node of another graph");
  graph.erase(*node);
}

}  // namespace

void bind_graph_edits(nb::class_<GraphView>& bound) {
  bound
      .def("insert", insert, "target"_a, "arguments"_a, nb::kw_only(), "before"_a = nb::none(),
           "like"_a = nb::none(), "name"_a = nb::none(),
           nb::sig("def insert(self, target: str, arguments: dict[str, typing.Any], *, before: "
                   "Node | None = None, like: Value | None = None, name: str | None = None) -> "
                   "Node"),
           "In transform_for_annotation() and hooks: inserts a call of an op with one result "
           "before a node (None: at the end). like: a value with the dtype and shape of the "
           "result; None: the op tells.")
      .def(
          "replace_uses",
          [](const GraphView& view, const ValueView& from, const ValueView& to) {
            Graph& graph = editable(view);
            graph.replace_uses(value_in(graph, from), value_in(graph, to));
          },
          "old"_a, "new"_a, "In transform_for_annotation() and hooks: also in the outputs.")
      .def("erase", erase, "node"_a,
           "In transform_for_annotation() and hooks: erases a node whose results are unused.")
      .def(
          "add_constant",
          [](const GraphView& view, const std::string& fqn, nb::handle tensor) {
            Graph& graph = editable(view);
            return ValueView(view.scope,
                             graph.add_constant(fqn, from_aten(from_torch(tensor)).clone()));
          },
          "fqn"_a, "tensor"_a,
          nb::sig("def add_constant(self, fqn: str, tensor: torch.Tensor) -> Value"),
          "In transform_for_annotation() and hooks: adds a buffer.");
}

}  // namespace octet::python
