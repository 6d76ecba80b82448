#include "tools/python/torch/bindings.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "annotate/graph/opaque_parts.h"
#include "core/base/error.h"
#include "core/passes/scalars.h"
#include "quantizers/registry.h"
#include "tools/python/torch/annotations.h"
#include "tools/python/torch/graph_view.h"
#include "tools/python/torch/opaque_parts.h"
#include "tools/python/torch/python_calls.h"
#include "tools/python/torch/python_observer.h"
#include "tools/python/torch/python_quantizer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

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

std::unique_ptr<Quantizer> make_python_quantizer(std::string name, nb::object quantizer,
                                                 const QuantizerOptions& options) {
  return std::make_unique<PythonQuantizer>(std::move(name), std::move(quantizer), options);
}

void bind_quantizer(nb::module_& module) {
  bind_graph_view(module);
  bind_annotations(module);
  bind_opaque_parts(module);
  bind_observers(module);
  module.def("set_quantizers", set_quantizers, "quantizers"_a);
}

}  // namespace octet::python
