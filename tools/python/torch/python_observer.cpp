#include "tools/python/torch/python_observer.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/observers/observer.h"
#include "core/base/error.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/data.h"
#include "tools/python/torch/specs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

// Returns the result of `call`. Exceptions from Python, except KeyboardInterrupt, become an Error.
// subject: names the Python code. Needs the GIL.
template <typename Call>
nb::object in_python(const char* stage, const std::string& subject, const Call& call) {
  try {
    return call();
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    const std::string type = name_of(error.type(), "an exception");
    throw Error(stage, "", fmt::format("{} raised {}: {}", subject, type, text_of(error.value())));
  }
}

class PythonObserver : public Observer {
 public:
  PythonObserver(const ObserverArgs& args, std::string name, nb::object observer)
      : Observer(args), name_(std::move(name)), observer_(std::move(observer)) {}
  ~PythonObserver() override {
    const nb::gil_scoped_acquire gil;
    observer_.reset();
  }

  void observe(const at::Tensor& x) override { forward(x); }

  // As in torchao, a fake-quant of torch gives the program its quantized values.
  at::Tensor forward(const at::Tensor& x) override {
    const nb::gil_scoped_acquire gil;
    const nb::object result =
        in_python("calibrate", name_, [&] { return observer_(to_torch(x.detach())); });
    has_data_ = true;
    if (!nb::hasattr(observer_, "fake_quant_enabled")) return x;
    const at::Tensor y = from_torch(result);
    if (y.sizes() == x.sizes() && y.scalar_type() == x.scalar_type()) return y;
    throw Error("calibrate", "",
                fmt::format("{} returned {} of {}, want {} of {}, as it got", name_,
                            c10::toString(y.scalar_type()), y.sizes().vec(),
                            c10::toString(x.scalar_type()), x.sizes().vec()));
  }

  QParams calculate_qparams() const override {
    const nb::gil_scoped_acquire gil;
    const DerivedQParams given = qparams_from(
        in_python("convert", name_, [&] { return observer_.attr("calculate_qparams")(); }), name_);
    QParams result;
    result.scale = given.scale;
    result.zero_point = given.zero_point;
    if (is_per_channel(args_.qscheme)) result.axis = args_.ch_axis.value_or(0);
    return result;
  }

  bool has_data() const override { return has_data_; }
  bool is_idempotent() const override { return false; }
  bool keeps_state() const override { return false; }

 private:
  std::string name_;
  nb::object observer_;
  bool has_data_ = false;
};

// The observers of the current call, by name. Needs the GIL.
std::map<std::string, nb::object>& current_observers() {
  static auto* const all = new std::map<std::string, nb::object>();
  return *all;
}

std::shared_ptr<Observer> make_current_observer(const std::string& name, const ObserverArgs& args) {
  const nb::gil_scoped_acquire gil;
  const auto found = current_observers().find(name);
  if (found == current_observers().end())
    throw Error("prepare", fmt::format("observer \"{}\"", name),
                "is a class of Python and not here; give its quantizer again");
  return std::make_shared<PythonObserver>(
      args, name, in_python("prepare", name, [&] { return found->second(); }));
}

struct ObserverView {
  std::shared_ptr<Observer> observer;
};

// The observer in an octet.Observer, or a new one for a spec.
std::shared_ptr<Observer> observer_of(nb::handle given) {
  if (nb::isinstance<ObserverView>(given)) return nb::cast<ObserverView>(given).observer;
  const SpecVariant spec = spec_of(given, "an observer");
  if (const auto* plain = std::get_if<QuantizationSpec>(&spec))
    return make_observer(observer_args(*plain));
  if (const auto* fixed = std::get_if<FixedQParamsQuantizationSpec>(&spec))
    return make_observer(*fixed);
  throw Error("prepare", "an observer",
              fmt::format("got {}, want an octet.Observer, a QuantizationSpec or a "
                          "FixedQParamsQuantizationSpec",
                          text_of(nb::repr(given))));
}

}  // namespace

std::string name_observer(nb::object make, bool is_per_channel) {
  static std::set<std::string> known;
  const std::string plain = name_of(make, "observer");
  const std::string channels = is_per_channel ? "per channel " : "";
  std::string name;
  for (int count = 1; name.empty() || current_observers().contains(name); ++count)
    name = fmt::format("Python's {}{} {}", channels, plain, count);
  if (known.insert(name).second)
    register_observer(
        name, is_per_channel ? ObserverScope::kChannel : ObserverScope::kTensor,
        [name](const ObserverArgs& args) { return make_current_observer(name, args); });
  current_observers()[name] = std::move(make);
  return name;
}

nb::tuple tensors_of(const QParams& qparams) {
  const bool has_floats = !qparams.float_zero_point.empty();
  return nb::make_tuple(
      to_torch(at::tensor(qparams.scale)),
      to_torch(has_floats ? at::tensor(qparams.float_zero_point) : at::tensor(qparams.zero_point)));
}

nb::dict dict_of(const ObserverMap& observers, const std::shared_ptr<Scope>& scope) {
  std::map<const Observer*, nb::object> objects;  // places that share one have the same object
  nb::dict offered;
  for (const auto& [place, observer] : observers) {
    nb::object& object = objects[observer.get()];
    if (!object.is_valid())
      object = observer == nullptr ? nb::object(nb::none()) : nb::cast(ObserverView{observer});
    offered[object_of(place, scope)] = object;
  }
  return offered;
}

void take_observers(const nb::dict& changed, const std::shared_ptr<Scope>& scope,
                    ObserverMap& observers) {
  size_t known = 0;
  for (auto& [place, observer] : observers) {
    const nb::object key = object_of(place, scope);
    const nb::object given = changed.contains(key) ? nb::object(changed[key]) : nb::none();
    known += changed.contains(key) ? 1 : 0;
    observer = given.is_none() ? nullptr : observer_of(given);
  }
  if (known != changed.size())
    throw Error("prepare", "prepare_obs_or_fq_callback()",
                "sets an observer in a place without a spec; annotate that edge or value");
}

void bind_observers(nb::module_& module) {
  nb::class_<ObserverView>(module, "Observer",
                           "An observer of octet: sees tensors, and computes scale and zero point.")
      .def(
          "__init__",
          [](ObserverView* view, nb::handle spec) { new (view) ObserverView{observer_of(spec)}; },
          "spec"_a, nb::sig("def __init__(self, spec: typing.Any) -> None"),
          "spec: a QuantizationSpec or a FixedQParamsQuantizationSpec.")
      .def_prop_ro(
          "name", [](const ObserverView& view) { return view.observer->args().choice.name; },
          "\"histogram\", ...")
      .def(
          "observe",
          [](const ObserverView& view, nb::handle tensor) {
            view.observer->observe(from_torch(tensor));
          },
          "tensor"_a, nb::sig("def observe(self, tensor: torch.Tensor) -> None"),
          "Observes a batch.")
      .def(
          "calculate_qparams",
          [](const ObserverView& view) { return tensors_of(view.observer->calculate_qparams()); },
          nb::sig("def calculate_qparams(self) -> tuple[torch.Tensor, torch.Tensor]"),
          "(scales, zero points), one or one per channel.")
      .def("__repr__", [](const ObserverView& view) {
        return fmt::format("octet.Observer({})", view.observer->args().choice.name);
      });
}

void forget_observers() { current_observers().clear(); }

DerivedQParams qparams_from(nb::handle given, const std::string& subject) {
  const nb::object lists =
      nb::module_::import_("octet._quantizer").attr("qparams_as_lists")(given, subject);
  return {nb::cast<std::vector<float>>(lists[0]), nb::cast<std::vector<int64_t>>(lists[1])};
}

}  // namespace octet::python
