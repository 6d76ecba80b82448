#include "tools/python/torch/python_observer.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <ATen/DLConvertor.h>
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "annotate/observers/observer.h"
#include "core/base/error.h"

namespace nb = nanobind;

namespace octet::python {
namespace {

nb::object to_torch(const at::Tensor& tensor) {
  const nb::object capsule = nb::steal(PyCapsule_New(at::toDLPack(tensor), "dltensor", nullptr));
  return nb::module_::import_("torch.utils.dlpack").attr("from_dlpack")(capsule);
}

// Returns the result of `call`. Exceptions from Python, except KeyboardInterrupt, become an Error.
// subject: names the Python code. Needs the GIL.
template <typename Call>
nb::object in_python(const char* stage, const std::string& subject, const Call& call) {
  try {
    return call();
  } catch (const nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;
    const auto text = [](nb::handle of) { return nb::cast<std::string>(nb::str(of)); };
    throw Error(stage, "",
                fmt::format("{} raised {}: {}", subject, text(error.type().attr("__name__")),
                            text(error.value())));
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

  void observe(const at::Tensor& x) override {
    const nb::gil_scoped_acquire gil;
    in_python("calibrate", name_, [&] { return observer_(to_torch(x.detach())); });
    has_data_ = true;
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

}  // namespace

std::string name_observer(nb::object make, bool is_per_channel) {
  static std::set<std::string> known;
  const std::string plain =
      nb::cast<std::string>(nb::str(nb::getattr(make, "__name__", nb::str("observer"))));
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

void forget_observers() { current_observers().clear(); }

DerivedQParams qparams_from(nb::handle given, const std::string& subject) {
  const nb::object lists =
      nb::module_::import_("octet._quantizer").attr("qparams_as_lists")(given, subject);
  return {nb::cast<std::vector<float>>(lists[0]), nb::cast<std::vector<int64_t>>(lists[1])};
}

}  // namespace octet::python
