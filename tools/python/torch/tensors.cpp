#include "tools/python/torch/tensors.h"

#include <string>

#include <ATen/DLConvertor.h>
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "core/base/error.h"

namespace nb = nanobind;

namespace octet::python {

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

}  // namespace octet::python
