#include "tools/python/torch/opaque_parts.h"

#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/observed/observed_graph.h"
#include "core/base/error.h"
#include "quantizers/registry.h"
#include "tools/python/torch/graph_view.h"
#include "tools/python/torch/python_calls.h"
#include "tools/python/torch/python_observer.h"
#include "tools/python/torch/python_quantizer.h"
#include "tools/python/torch/specs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// What a hook sees of an opaque part.
struct IslandView {
  std::shared_ptr<Scope> scope;
  const Island* island;
  const ObservedGraph* observed;  // null: in float_to_observed

  const Island& operator*() const {
    graph_of(*scope);
    return *island;
  }
};

nb::tuple qparams_of(const IslandView& view, const ValueView& value) {
  const Island& island = *view;
  if (view.observed == nullptr)
    throw Error("annotate", island.name, "has no observers yet; ask in observed_to_quantized()");
  return tensors_of(octet::qparams_of(*view.observed, *value));
}

using Hook = std::function<void(Graph&, Island&, const ObservedGraph*)>;

Hook hook_of(const nb::object& part, const char* name) {
  const nb::object given = part.attr(name);
  if (given.is_none()) return {};
  return [hook = held(given), call = fmt::format("{}()", name)](Graph& graph, Island& island,
                                                                const ObservedGraph* observed) {
    const nb::gil_scoped_acquire gil;
    const OpenScope open(graph, call, /*may_edit=*/true);
    passing_on(
        [&] { (*hook)(GraphView{open.scope()}, IslandView{open.scope(), &island, observed}); });
  };
}

std::map<size_t, BorderSpec> border_of(nb::handle given, const std::string& subject) {
  std::map<size_t, BorderSpec> border;
  for (const auto& [index, spec] : nb::cast<nb::dict>(given))
    border[nb::cast<size_t>(index)] = border_spec_of(spec, subject);
  return border;
}

std::shared_ptr<Quantizer> quantizer_of(const nb::object& given, const QuantizerOptions& options) {
  if (given.is_none()) return nullptr;
  QuantizerOptions own;
  own.compat = options.compat;
  own.is_qat = options.is_qat;
  own.learns_ranges = options.learns_ranges;
  if (nb::isinstance<nb::dict>(given))
    return parse_quantizer(nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(given)),
                           "the quantizer of an opaque part", own);
  if (nb::hasattr(given, "annotate"))
    return make_python_quantizer(name_of(given.type(), "quantizer"), given, own);
  return make_quantizer(text_of(given), own);
}

OpaquePart part_of(const nb::object& given, const QuantizerOptions& options) {
  OpaquePart part;
  part.module = nb::cast<std::string>(given.attr("module"));
  part.module_type = nb::cast<std::string>(given.attr("module_type"));
  part.op = nb::cast<std::string>(given.attr("op"));
  part.ops = nb::cast<std::vector<std::string>>(given.attr("ops"));
  part.is_recorded = nb::cast<bool>(given.attr("recorded"));
  part.quantizer = quantizer_of(given.attr("quantizer"), options);
  check_opaque_part(part);
  part.quantized_inputs = border_of(given.attr("quantized_inputs"), name_of(part));
  part.quantized_outputs = border_of(given.attr("quantized_outputs"), name_of(part));
  if (const Hook hook = hook_of(given, "float_to_observed"))
    part.float_to_observed = [hook](Graph& graph, Island& island) { hook(graph, island, nullptr); };
  if (const Hook hook = hook_of(given, "observed_to_quantized"))
    part.observed_to_quantized = [hook](ObservedGraph& observed, Island& island) {
      hook(island.nodes.front()->graph(), island, &observed);
    };
  check_opaque_part(part);
  return part;
}

}  // namespace

std::vector<OpaquePart> parts_of(nb::handle list, const QuantizerOptions& options) {
  std::vector<OpaquePart> parts;
  for (nb::handle given : list) {
    if (name_of(given.type(), "") != "OpaquePart")
      throw Error("quantizer", "opaque_parts",
                  fmt::format("got {}, want a list of octet.OpaquePart", text_of(nb::repr(given))));
    try {
      parts.push_back(part_of(nb::borrow(given), options));
    } catch (const std::bad_cast&) {
      throw Error(
          "quantizer", "opaque_parts",
          fmt::format("got {}, which has a field of another type", text_of(nb::repr(given))));
    }
  }
  return parts;
}

void bind_opaque_parts(nb::module_& module) {
  nb::class_<IslandView>(module, "Island", "One occurrence of an opaque part, as its hooks see it.")
      .def_prop_ro(
          "name", [](const IslandView& view) { return (*view).name; }, "module \"head\"")
      .def_prop_ro(
          "nodes", [](const IslandView& view) { return views_of(view.scope, (*view).nodes); },
          "Its nodes, in the order in which they run.")
      .def_prop_ro(
          "inputs", [](const IslandView& view) { return views_of(view.scope, (*view).inputs); },
          "The tensors that it reads from outside, without constants.")
      .def_prop_ro(
          "outputs", [](const IslandView& view) { return views_of(view.scope, (*view).outputs); },
          "The tensors that are read outside.")
      .def("qparams", qparams_of, "value"_a,
           nb::sig("def qparams(self, value: Value) -> tuple[torch.Tensor, torch.Tensor]"),
           "In observed_to_quantized: (scales, zero points) of a value that the quantizer of the "
           "part annotated, one or one per channel.");
}

}  // namespace octet::python
