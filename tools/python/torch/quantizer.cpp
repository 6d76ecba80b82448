#include "tools/python/torch/bindings.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/error.h"
#include "core/passes/rewrites.h"
#include "quantizers/common/quantizer_options.h"
#include "quantizers/registry.h"
#include "tools/python/torch/annotations.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/graph_view.h"
#include "tools/python/torch/python_observer.h"
#include "tools/python/torch/specs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// Needs the GIL.
std::unique_ptr<Quantizer> make_python_quantizer(std::string name, nb::object quantizer,
                                                 const QuantizerOptions& options);

// ---- opaque parts with hooks

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

// Converts octet.OpaquePart objects. options: for the quantizers of parts. Needs the GIL.
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

// ---- quantizers

class PythonQuantizer : public Quantizer {
 public:
  PythonQuantizer(std::string name, nb::object quantizer, const QuantizerOptions& options)
      : name_(std::move(name)),
        parts_(parts_of(quantizer.attr("opaque_parts"), options)),
        quantizer_(std::move(quantizer)) {}
  ~PythonQuantizer() override {
    const nb::gil_scoped_acquire gil;
    quantizer_.reset();
  }

  std::string name() const override { return name_; }

  const std::vector<OpaquePart>* opaque_parts() const override {
    return parts_.empty() ? nullptr : &parts_;
  }

  void transform_for_annotation(Graph& graph) override {
    const nb::gil_scoped_acquire gil;
    if (nb::cast<bool>(quantizer_.attr("scalars_to_constants"))) scalars_to_constants(graph);
    const OpenScope open(graph, "transform_for_annotation()", /*may_edit=*/true);
    call("transform_for_annotation", GraphView{open.scope()});
  }

  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    const nb::gil_scoped_acquire gil;
    const OpenScope open(graph, "annotate()");
    call("annotate", GraphView{open.scope()}, AnnotationsView{open.scope(), &annotations},
         ReportView{open.scope(), &report});
  }

  // Views are not const; the flags keep Python from changing what they show.
  void validate(const Graph& graph, const Annotations& annotations) override {
    const nb::gil_scoped_acquire gil;
    const OpenScope open(const_cast<Graph&>(graph), "validate()");
    call("validate", GraphView{open.scope()},
         AnnotationsView{open.scope(), const_cast<Annotations*>(&annotations), /*is_final=*/true});
  }

  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override {
    const nb::gil_scoped_acquire gil;
    const char* method = "prepare_obs_or_fq_callback";
    const nb::object base = nb::module_::import_("octet._quantizer").attr("Quantizer");
    if (quantizer_.type().attr(method).is(base.attr(method))) return;
    const OpenScope open(const_cast<Graph&>(graph), "prepare_obs_or_fq_callback()");
    nb::dict offered = dict_of(observers, open.scope());
    call(method, GraphView{open.scope()}, offered);
    take_observers(offered, open.scope(), observers);
  }

 private:
  template <typename... Arguments>
  void call(const char* method, Arguments&&... arguments) {
    passing_on([&] { quantizer_.attr(method)(std::forward<Arguments>(arguments)...); });
  }

  std::string name_;
  std::vector<OpaquePart> parts_;
  nb::object quantizer_;
};

// The quantizers of the current call, by name. Needs the GIL.
std::map<std::string, nb::object>& current_quantizers() {
  static auto* const all = new std::map<std::string, nb::object>();
  return *all;
}

std::unique_ptr<Quantizer> make_python_quantizer(std::string name, nb::object quantizer,
                                                 const QuantizerOptions& options) {
  return std::make_unique<PythonQuantizer>(std::move(name), std::move(quantizer), options);
}

std::unique_ptr<Quantizer> make_current(const std::string& name, const QuantizerOptions& options) {
  const nb::gil_scoped_acquire gil;
  const auto found = current_quantizers().find(name);
  if (found == current_quantizers().end())
    throw Error("quantizer", name, "is a class of Python; give an object of it");
  return make_python_quantizer(name, found->second, options);
}

// Sets the quantizers of the current call. A name is registered once, and finds the current object.
void set_quantizers(const nb::dict& quantizers) {
  static std::set<std::string> known;
  current_quantizers().clear();
  forget_observers();
  for (const auto& [key, quantizer] : quantizers) {
    const std::string name = nb::cast<std::string>(key);
    if (!known.contains(name))
      register_quantizer(
          name, [name](const QuantizerOptions& options) { return make_current(name, options); });
    known.insert(name);
    current_quantizers()[name] = nb::borrow(quantizer);
  }
}

}  // namespace

void bind_quantizer(nb::module_& module) {
  bind_graph_view(module);
  bind_annotations(module);
  bind_opaque_parts(module);
  bind_observers(module);
  module.def("set_quantizers", set_quantizers, "quantizers"_a);
}

}  // namespace octet::python
