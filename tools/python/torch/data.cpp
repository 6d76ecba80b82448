#include "tools/python/torch/data.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <ATen/DLConvertor.h>
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "annotate/compare/metric.h"
#include "core/base/error.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/common/sample_data.h"
#include "tools/python/torch/calls.h"
#include "tools/python/torch/graph.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace octet::python {
namespace {

c10::IValue value_of(nb::handle leaf) {
  if (leaf.is_none()) return c10::IValue();
  if (nb::isinstance<nb::bool_>(leaf)) return nb::cast<bool>(leaf);
  if (nb::isinstance<nb::int_>(leaf)) return nb::cast<int64_t>(leaf);
  if (nb::isinstance<nb::float_>(leaf)) return nb::cast<double>(leaf);
  if (nb::isinstance<nb::str>(leaf)) return nb::cast<std::string>(leaf);
  return view_of_torch(leaf);
}

// batches: an object with size() and at(index).
class PythonBatches : public HeldBatches {
 public:
  explicit PythonBatches(nb::object batches) : batches_(held(std::move(batches))) {}

  size_t size() const override {
    const nb::gil_scoped_acquire gil;
    return passing_on([&] { return nb::cast<size_t>(batches_->attr("size")()); });
  }

  std::vector<c10::IValue> at(size_t index) const override {
    const nb::gil_scoped_acquire gil;
    return values_of(passing_on([&] { return nb::object(batches_->attr("at")(index)); }));
  }

 private:
  HeldObject batches_;
};

nb::object to_python(const c10::IValue& value) {
  if (value.isTensor()) return to_torch(value.toTensor());
  if (value.isBool()) return nb::bool_(value.toBool());
  if (value.isInt()) return nb::int_(value.toInt());
  if (value.isDouble()) return nb::float_(value.toDouble());
  if (value.isString()) return nb::cast(value.toStringRef());
  return nb::none();
}

// A tuple for each batch of a file for the program.
nb::list read_batches(const std::string& file, const GraphHandle& program,
                      std::optional<size_t> max_batches) {
  const SampleReader reader(sample_data(file, program.graph.get(), max_batches));
  nb::list batches;
  for (size_t i = 0; i < reader.size(); ++i) {
    nb::list batch;
    for (const c10::IValue& value : reader.at(i)) batch.append(to_python(value));
    batches.append(nb::tuple(batch));
  }
  return batches;
}

// The function of a metric; the same name may get another function later. Needs the GIL.
void set_metric(const std::string& name, nb::object function) {
  static auto* const all = new std::map<std::string, HeldObject>();
  const bool is_new = !all->contains(name);
  if (is_new)
    register_metric(name, [name](const at::Tensor& reference, const at::Tensor& subject) {
      const nb::gil_scoped_acquire gil;
      const HeldObject& now = all->at(name);
      if (now->is_none())
        throw Error("compare", "metric",
                    name + " was a function of an earlier call; give the function");
      return passing_on(
          [&] { return nb::cast<double>((*now)(to_torch(reference), to_torch(subject))); });
    });
  (*all)[name] = held(std::move(function));
}

}  // namespace

nb::object to_torch(const at::Tensor& tensor) {
  const nb::object capsule = nb::steal(PyCapsule_New(at::toDLPack(tensor), "dltensor", nullptr));
  return nb::module_::import_("torch.utils.dlpack").attr("from_dlpack")(capsule);
}

at::Tensor from_torch(nb::handle tensor) { return view_of_torch(tensor).contiguous(); }

at::Tensor view_of_torch(nb::handle tensor) {
  const nb::module_ torch = nb::module_::import_("torch");
  if (!nb::isinstance(tensor, torch.attr("Tensor")) ||
      nb::cast<std::string>(tensor.attr("device").attr("type")) != "cpu")
    throw Error("annotate", "a tensor",
                fmt::format("got {}, want a torch.Tensor on the CPU",
                            nb::cast<std::string>(nb::repr(tensor.type()))));
  const nb::object plain = tensor.attr("detach")();
  const nb::object capsule = nb::module_::import_("torch.utils.dlpack").attr("to_dlpack")(plain);
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  return at::fromDLPack(managed);
}

std::vector<c10::IValue> values_of(nb::handle batch) {
  std::vector<c10::IValue> values;
  for (const nb::handle leaf : nb::borrow<nb::sequence>(batch)) values.push_back(value_of(leaf));
  return values;
}

void bind_data(nb::module_& module) {
  module.def(
      "hold_batches",
      [](const std::string& name, nb::object batches) {
        hold_batches(name, batches.is_none()
                               ? nullptr
                               : std::make_shared<const PythonBatches>(std::move(batches)));
      },
      "name"_a, "batches"_a.none());
  module.def("read_batches", read_batches, "file"_a, "program"_a, "max_batches"_a.none());
  module.def("set_metric", set_metric, "name"_a, "function"_a.none());
}

}  // namespace octet::python
