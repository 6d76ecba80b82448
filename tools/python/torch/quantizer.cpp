#include "tools/python/torch/bindings.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/annotation/quantizer.h"
#include "annotate/observers/observer.h"
#include "core/base/error.h"
#include "core/base/user_code.h"
#include "core/passes/scalars.h"
#include "quantizers/registry.h"
#include "tools/python/torch/graph_view.h"
#include "tools/python/torch/python_observer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// ---- specs: the dataclasses of octet/_specs.py, read by their members

std::string text_of(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

template <typename Kind>
std::optional<Kind> member(nb::handle object, const char* name) {
  const nb::object value = object.attr(name);
  if (value.is_none()) return std::nullopt;
  Kind kind{};
  if (!nb::try_cast(value, kind))
    throw Error("annotate", fmt::format("{}.{}", text_of(object.type().attr("__name__")), name),
                fmt::format("got {}, which has another type", text_of(nb::repr(value))));
  return kind;
}

DType dtype_of(nb::handle spec) {
  const std::string name = text_of(spec.attr("dtype"));
  const std::string plain = name.starts_with("torch.") ? name.substr(6) : name;
  if (const std::optional<DType> dtype = find_dtype(plain)) return *dtype;
  throw Error("annotate", "dtype", fmt::format("got \"{}\", want \"int8\", \"uint8\", ...", name));
}

std::optional<QScheme> qscheme_of(nb::handle spec) {
  const std::optional<std::string> name = member<std::string>(spec, "qscheme");
  if (!name) return std::nullopt;
  if (const std::optional<QScheme> qscheme = find_qscheme(*name)) return qscheme;
  throw Error(
      "annotate", "qscheme",
      fmt::format("got \"{}\", want \"per_tensor_affine\", \"per_channel_symmetric\", ...", *name));
}

EdgeOrNode place_of(nb::handle given) {
  ValueView value(nullptr, nullptr);
  if (nb::try_cast(given, value)) return &*value;
  if (nb::isinstance<nb::tuple>(given) && nb::len(given) == 2 &&
      nb::isinstance<ValueView>(given[0]) && nb::isinstance<NodeView>(given[1]))
    return Edge{&*nb::cast<ValueView>(given[0]), &*nb::cast<NodeView>(given[1])};
  throw Error("annotate", "a shared or derived spec",
              fmt::format("got {}, want a value, or a pair (value, node that reads it)",
                          text_of(nb::repr(given))));
}

QuantizationSpec plain_spec(nb::handle given) {
  QuantizationSpec spec;
  spec.dtype = dtype_of(given);
  ObserverChoice& choice = spec.observer_or_fake_quant_ctr;
  const nb::object observer = given.attr("observer");
  spec.qscheme = qscheme_of(given);
  choice.name = nb::isinstance<nb::callable>(observer)
                    ? name_observer(observer, spec.qscheme && is_per_channel(*spec.qscheme))
                    : member<std::string>(given, "observer").value_or(choice.name);
  choice.eps = member<double>(given, "eps");
  choice.bins = member<int>(given, "bins").value_or(choice.bins);
  choice.averaging_constant =
      member<double>(given, "averaging_constant").value_or(choice.averaging_constant);
  choice.percentile = member<double>(given, "percentile").value_or(choice.percentile);
  spec.quant_min = member<int64_t>(given, "quant_min");
  spec.quant_max = member<int64_t>(given, "quant_max");
  spec.ch_axis = member<int>(given, "ch_axis");
  spec.is_dynamic = member<bool>(given, "is_dynamic").value_or(false);
  return spec;
}

FixedQParamsQuantizationSpec fixed_spec(nb::handle given) {
  FixedQParamsQuantizationSpec spec;
  spec.dtype = dtype_of(given);
  spec.scale = member<double>(given, "scale").value_or(spec.scale);
  spec.zero_point = member<int64_t>(given, "zero_point").value_or(0);
  spec.quant_min = member<int64_t>(given, "quant_min");
  spec.quant_max = member<int64_t>(given, "quant_max");
  spec.qscheme = qscheme_of(given);
  return spec;
}

// Lets an exception of Python pass through Octet unchanged. Needs the GIL.
template <typename Call>
auto passing_on(const Call& call) {
  try {
    return call();
  } catch (const nb::python_error&) {
    throw ForeignException{std::current_exception()};
  }
}

// A Python function that may be copied and destroyed without the GIL.
DeriveQParamsFn derived_in_python(nb::object derive) {
  const std::shared_ptr<nb::object> held(new nb::object(std::move(derive)), [](nb::object* object) {
    const nb::gil_scoped_acquire gil;
    delete object;
  });
  return [held](const std::vector<std::shared_ptr<Observer>>& observers) {
    std::vector<QParams> qparams;
    for (const std::shared_ptr<Observer>& observer : observers)
      qparams.push_back(observer->calculate_qparams());
    const nb::gil_scoped_acquire gil;
    nb::list sources;
    for (const QParams& q : qparams) sources.append(nb::make_tuple(q.scale, q.zero_point));
    const nb::object seen = nb::module_::import_("octet._quantizer").attr("sources")(sources);
    return passing_on([&] {
      return qparams_from((*held)(seen),
                          text_of(nb::getattr(*held, "__name__", nb::str("derive"))));
    });
  };
}

DerivedQuantizationSpec derived_spec(nb::handle given) {
  DerivedQuantizationSpec spec;
  for (nb::handle place : given.attr("derived_from")) spec.derived_from.push_back(place_of(place));
  const nb::object derive = given.attr("derive");
  if (nb::isinstance<nb::callable>(derive)) {
    spec.derive_name = text_of(nb::getattr(derive, "__name__", nb::str("a function")));
    spec.derive_qparams_fn = derived_in_python(derive);
  } else {
    spec.derive_name = text_of(derive);
    spec.derive_qparams_fn = find_derive_fn(spec.derive_name);
  }
  spec.dtype = dtype_of(given);
  spec.quant_min = member<int64_t>(given, "quant_min");
  spec.quant_max = member<int64_t>(given, "quant_max");
  spec.qscheme = qscheme_of(given);
  spec.ch_axis = member<int>(given, "ch_axis");
  return spec;
}

SpecVariant spec_of(nb::handle given) {
  const std::string kind = text_of(given.type().attr("__name__"));
  if (kind == "QuantizationSpec") return plain_spec(given);
  if (kind == "FixedQParamsQuantizationSpec") return fixed_spec(given);
  if (kind == "DerivedQuantizationSpec") return derived_spec(given);
  if (kind == "SharedQuantizationSpec")
    return SharedQuantizationSpec{place_of(given.attr("edge_or_node"))};
  throw Error("annotate", "a spec",
              fmt::format("got {}, want one of octet's four specs", text_of(nb::repr(given))));
}

// ---- what annotate() fills

struct AnnotationsView {
  std::shared_ptr<Scope> scope;
  Annotations* annotations;
};

struct ReportView {
  std::shared_ptr<Scope> scope;
  Report* report;
};

void annotate_node(AnnotationsView& view, const NodeView& node, nb::handle inputs,
                   nb::handle output, const std::string& rule, bool allow_implicit_sharing) {
  const std::vector<Value*> read = node->inputs();
  QuantizationAnnotation annotation;
  annotation.rule = rule;
  annotation.allow_implicit_sharing = allow_implicit_sharing;
  if (!inputs.is_none())
    for (const auto& [key, spec] : nb::cast<nb::dict>(inputs)) {
      if (spec.is_none()) continue;
      Value& value = *nb::cast<ValueView>(key);
      if (std::find(read.begin(), read.end(), &value) == read.end())
        throw Error("annotate", fmt::format("%{}", node->name()),
                    fmt::format("does not read %{}; annotate a node that does", value.name()));
      annotation.set_input(&value, spec_of(spec));
    }
  if (nb::isinstance<nb::dict>(output)) {
    for (const auto& [key, spec] : nb::cast<nb::dict>(output)) {
      Value& value = *nb::cast<ValueView>(key);
      if (value.producer() != &*node)
        throw Error("annotate", fmt::format("%{}", node->name()),
                    fmt::format("does not define %{}; want one of its results", value.name()));
      if (!spec.is_none()) annotation.set_output(&value, spec_of(spec));
    }
  } else if (!output.is_none()) {
    annotation.output_qspec = spec_of(output);
  }
  (*view.annotations)[&*node] = std::move(annotation);
}

class PythonQuantizer : public Quantizer {
 public:
  PythonQuantizer(std::string name, nb::object quantizer)
      : name_(std::move(name)), quantizer_(std::move(quantizer)) {}
  ~PythonQuantizer() override {
    const nb::gil_scoped_acquire gil;
    quantizer_.reset();
  }

  std::string name() const override { return name_; }

  void transform_for_annotation(Graph& graph) override {
    const nb::gil_scoped_acquire gil;
    if (nb::cast<bool>(nb::getattr(quantizer_, "scalars_to_constants", nb::bool_(true))))
      scalars_to_constants(graph);
  }

  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    const nb::gil_scoped_acquire gil;
    const auto scope = std::make_shared<Scope>(&graph);
    const std::unique_ptr<Scope, void (*)(Scope*)> close(scope.get(),
                                                         [](Scope* s) { s->graph = nullptr; });
    passing_on([&] {
      quantizer_.attr("annotate")(GraphView(scope, &graph), AnnotationsView{scope, &annotations},
                                  ReportView{scope, &report});
    });
  }

 private:
  std::string name_;
  nb::object quantizer_;
};

// The quantizers of the current call, by name. Needs the GIL.
std::map<std::string, nb::object>& current_quantizers() {
  static auto* const all = new std::map<std::string, nb::object>();
  return *all;
}

std::unique_ptr<Quantizer> make_current(const std::string& name) {
  const nb::gil_scoped_acquire gil;
  const auto found = current_quantizers().find(name);
  if (found == current_quantizers().end())
    throw Error("quantizer", name, "is a class of Python; give an object of it");
  return std::make_unique<PythonQuantizer>(name, found->second);
}

// Sets the quantizers of the current call. A name is registered once, and finds the current object.
void set_quantizers(const nb::dict& quantizers) {
  static std::set<std::string> known;
  current_quantizers().clear();
  forget_observers();
  for (const auto& [key, quantizer] : quantizers) {
    const std::string name = nb::cast<std::string>(key);
    if (!known.contains(name))
      register_quantizer(name, [name](const QuantizerOptions&) { return make_current(name); });
    known.insert(name);
    current_quantizers()[name] = nb::borrow(quantizer);
  }
}

}  // namespace

void bind_quantizer(nb::module_& module) {
  bind_graph_view(module);
  nb::class_<AnnotationsView>(module, "Annotations", "Receives the annotations of a Quantizer.")
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
            return view.annotations->is_annotated(&*node);
          },
          "node"_a, "Whether the node is annotated.");
  nb::class_<ReportView>(module, "AnnotationReport", "What a Quantizer says.")
      .def(
          "float_op",
          [](ReportView& view, const NodeView& node, const std::string& reason) {
            const std::vector<ModuleFrame> stack = module_stack(*node);
            view.report->add({"annotate", node->name(), node->target(),
                              stack.empty() ? "" : stack.back().path, reason});
          },
          "node"_a, "reason"_a, "Records that an op stays float, and why.")
      .def(
          "note",
          [](ReportView& view, const std::string& text) {
            if (view.scope->graph != nullptr) view.report->note(text);
          },
          "text"_a, "A remark.");
  module.def("set_quantizers", set_quantizers, "quantizers"_a);
}

}  // namespace octet::python
