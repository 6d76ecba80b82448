#include "tools/python/torch/specs.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/observed/annotation_json.h"
#include "annotate/observers/observer.h"
#include "core/base/error.h"
#include "quantizers/json/specs.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/python_observer.h"

namespace nb = nanobind;

namespace octet::python {

namespace {

nb::object class_of(const char* name) {
  return nb::module_::import_("octet._quantizer").attr(name);
}

// ---- from Python: dataclasses are read by their members

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
  if (nb::isinstance<ValueView>(given)) return &*nb::cast<ValueView>(given);
  if (nb::isinstance<nb::tuple>(given) && nb::len(given) == 2 &&
      nb::isinstance<ValueView>(given[0]) && nb::isinstance<NodeView>(given[1]))
    return Edge{&*nb::cast<ValueView>(given[0]), &*nb::cast<NodeView>(given[1])};
  throw Error("annotate", "a shared or derived spec",
              fmt::format("got {}, want a value, or a pair (value, node that reads it)",
                          text_of(nb::repr(given))));
}

// observer: a name, a dict as in JSON files, or a function that makes an observer of Python.
ObserverChoice choice_of(nb::handle observer, bool is_per_channel) {
  ObserverChoice choice;
  if (nb::isinstance<nb::dict>(observer)) {
    const std::string text =
        nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(observer));
    const Json json = parse_settings(text, "observer");
    return observer_at({json, "observer", ""});
  }
  if (nb::isinstance<nb::callable>(observer))
    choice.name = name_observer(nb::borrow(observer), is_per_channel);
  return choice;
}

QuantizationSpec plain_spec(nb::handle given) {
  QuantizationSpec spec;
  spec.dtype = dtype_of(given);
  spec.qscheme = qscheme_of(given);
  const nb::object observer = given.attr("observer");
  ObserverChoice& choice = spec.observer_or_fake_quant_ctr;
  choice = choice_of(observer, spec.qscheme && is_per_channel(*spec.qscheme));
  if (!nb::isinstance<nb::dict>(observer) && !nb::isinstance<nb::callable>(observer))
    choice.name = member<std::string>(given, "observer").value_or(choice.name);
  if (const std::optional<double> eps = member<double>(given, "eps")) choice.eps = eps;
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

// A derive function of Python. Keeps it, so that specs can be read back.
struct PythonDerive {
  HeldObject derive;

  DerivedQParams operator()(const std::vector<std::shared_ptr<Observer>>& observers) const {
    std::vector<QParams> qparams;
    for (const std::shared_ptr<Observer>& observer : observers)
      qparams.push_back(observer->calculate_qparams());
    const nb::gil_scoped_acquire gil;
    nb::list pairs;
    for (const QParams& q : qparams) pairs.append(nb::make_tuple(q.scale, q.zero_point));
    const nb::object seen = nb::module_::import_("octet._quantizer").attr("sources")(pairs);
    return passing_on([&] { return qparams_from((*derive)(seen), name_of(*derive, "derive")); });
  }
};

DerivedQuantizationSpec derived_spec(nb::handle given) {
  DerivedQuantizationSpec spec;
  for (nb::handle place : given.attr("derived_from")) spec.derived_from.push_back(place_of(place));
  const nb::object derive = given.attr("derive");
  if (nb::isinstance<nb::callable>(derive)) {
    spec.derive_name = name_of(derive, "a function");
    spec.derive_qparams_fn = PythonDerive{held(derive)};
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

SpecVariant unchecked_spec_of(nb::handle given) {
  const std::string kind = name_of(given.type(), "");
  if (kind == "QuantizationSpec") return plain_spec(given);
  if (kind == "FixedQParamsQuantizationSpec") return fixed_spec(given);
  if (kind == "DerivedQuantizationSpec") return derived_spec(given);
  if (kind == "SharedQuantizationSpec")
    return SharedQuantizationSpec{place_of(given.attr("edge_or_node"))};
  throw Error("annotate", "a spec",
              fmt::format("got {}, want one of octet's four specs", text_of(nb::repr(given))));
}

// ---- to Python

template <typename Kind>
nb::object or_none(const std::optional<Kind>& value) {
  return value ? nb::cast(*value) : nb::none();
}

nb::object or_none(const std::optional<QScheme>& qscheme) {
  return qscheme ? nb::cast(std::string(name_of(*qscheme))) : nb::none();
}

// What differs from the default, as its user wrote it.
template <typename Kind>
nb::object unless_default(Kind value, Kind fallback) {
  return value == fallback ? nb::none() : nb::cast(value);
}

template <typename Spec>
nb::dict members_of(const Spec& spec) {
  nb::dict members;
  members["dtype"] = std::string(name_of(spec.dtype));
  members["quant_min"] = or_none(spec.quant_min);
  members["quant_max"] = or_none(spec.quant_max);
  members["qscheme"] = or_none(spec.qscheme);
  return members;
}

struct ToObject {
  const std::shared_ptr<Scope>& scope;

  nb::object operator()(const QuantizationSpec& spec) const {
    nb::dict members = members_of(spec);
    members["ch_axis"] = or_none(spec.ch_axis);
    members["is_dynamic"] = spec.is_dynamic;
    const ObserverChoice& choice = spec.observer_or_fake_quant_ctr;
    const ObserverChoice plain;
    if (choice.affine || choice.reduce_range) {
      members["observer"] = nb::module_::import_("json").attr("loads")(to_json(choice));
    } else {
      members["observer"] = choice.name;
      members["eps"] = or_none(choice.eps);
      members["bins"] = unless_default(choice.bins, plain.bins);
      members["averaging_constant"] =
          unless_default(choice.averaging_constant, plain.averaging_constant);
      members["percentile"] = unless_default(choice.percentile, plain.percentile);
    }
    return class_of("QuantizationSpec")(**members);
  }
  nb::object operator()(const SharedQuantizationSpec& spec) const {
    return class_of("SharedQuantizationSpec")(object_of(spec.edge_or_node, scope));
  }
  nb::object operator()(const FixedQParamsQuantizationSpec& spec) const {
    nb::dict members = members_of(spec);
    members["scale"] = spec.scale;
    members["zero_point"] = spec.zero_point;
    return class_of("FixedQParamsQuantizationSpec")(**members);
  }
  nb::object operator()(const DerivedQuantizationSpec& spec) const {
    nb::dict members = members_of(spec);
    nb::list sources;
    for (const EdgeOrNode& source : spec.derived_from) sources.append(object_of(source, scope));
    members["derived_from"] = sources;
    members["ch_axis"] = or_none(spec.ch_axis);
    if (const auto* own = spec.derive_qparams_fn.target<PythonDerive>())
      members["derive"] = *own->derive;
    else
      members["derive"] = spec.derive_name;
    return class_of("DerivedQuantizationSpec")(**members);
  }
};

}  // namespace

SpecVariant spec_of(nb::handle given, const std::string& subject) {
  SpecVariant spec = unchecked_spec_of(given);
  check_spec(spec, subject);
  if (const auto* plain = std::get_if<QuantizationSpec>(&spec);
      plain != nullptr && !nb::isinstance<nb::callable>(given.attr("observer")))
    make_observer(observer_args(*plain));  // knows its name and options
  return spec;
}

BorderSpec border_spec_of(nb::handle given, const std::string& subject) {
  if (name_of(given.type(), "") == "SharedQuantizationSpec")
    if (const std::optional<size_t> input = member<size_t>(given, "edge_or_node"))
      return SameAsInput{*input};
  const SpecVariant spec = spec_of(given, subject);
  if (const auto* plain = std::get_if<QuantizationSpec>(&spec)) return *plain;
  if (const auto* fixed = std::get_if<FixedQParamsQuantizationSpec>(&spec)) return *fixed;
  throw Error("quantizer", subject, "has a derived spec, want one that observes or is fixed");
}

nb::object object_of(const EdgeOrNode& place, const std::shared_ptr<Scope>& scope) {
  if (Value* const* value = std::get_if<Value*>(&place)) return nb::cast(view_of(scope, *value));
  const Edge& edge = std::get<Edge>(place);
  return nb::make_tuple(view_of(scope, edge.value), view_of(scope, edge.user));
}

nb::object object_of(const SpecVariant& spec, const std::shared_ptr<Scope>& scope) {
  return std::visit(ToObject{scope}, spec);
}

}  // namespace octet::python
