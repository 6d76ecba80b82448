#include "tools/python/runtime/arrays.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "core/base/error.h"

namespace nb = nanobind;

namespace octet::python {
namespace {

using Array = nb::ndarray<nb::ro>;

struct DLPackType {
  DType dtype;
  nb::dlpack::dtype_code code;
};

using Code = nb::dlpack::dtype_code;
constexpr DLPackType kTypes[] = {
    {DType::kUInt8, Code::UInt},        {DType::kInt8, Code::Int},
    {DType::kUInt16, Code::UInt},       {DType::kInt16, Code::Int},
    {DType::kUInt32, Code::UInt},       {DType::kInt32, Code::Int},
    {DType::kUInt64, Code::UInt},       {DType::kInt64, Code::Int},
    {DType::kFloat16, Code::Float},     {DType::kBFloat16, Code::Bfloat},
    {DType::kFloat32, Code::Float},     {DType::kFloat64, Code::Float},
    {DType::kComplex64, Code::Complex}, {DType::kComplex128, Code::Complex},
    {DType::kBool, Code::Bool},
};

nb::dlpack::dtype to_dlpack(const DLPackType& type) {
  return {static_cast<uint8_t>(type.code), static_cast<uint8_t>(8 * size_of(type.dtype)), 1};
}

DType dtype_of(const Array& array, const std::string& subject) {
  for (const DLPackType& type : kTypes)
    if (to_dlpack(type) == array.dtype()) return type.dtype;
  throw Error("session", subject,
              fmt::format("got elements of DLPack's type {} with {} bits, which no program takes; "
                          "convert the array",
                          array.dtype().code, array.dtype().bits));
}

// A view of the bytes from the first to the last element, for any strides.
Tensor view_of(const Array& array, DType dtype) {
  std::vector<int64_t> shape, strides;
  int64_t first = 0, last = 0;
  bool is_empty = false;
  for (size_t d = 0; d < array.ndim(); ++d) {
    shape.push_back(static_cast<int64_t>(array.shape(d)));
    strides.push_back(array.stride(d));
    is_empty = is_empty || shape.back() == 0;
    const int64_t reach = (shape.back() - 1) * strides.back();
    (reach < 0 ? first : last) += reach;
  }
  if (is_empty) return Tensor::zeros(dtype, std::move(shape));
  const int64_t bytes = static_cast<int64_t>(size_of(dtype));
  auto storage = std::make_shared<Storage>();
  // Inputs are only read.
  auto* start = static_cast<std::byte*>(const_cast<void*>(array.data()));
  storage->data = start + first * bytes;
  storage->size = static_cast<size_t>((last - first + 1) * bytes);
  storage->owner = std::shared_ptr<void>(new Array(array), [](void* kept) {
    const nb::gil_scoped_acquire gil;
    delete static_cast<Array*>(kept);
  });
  return Tensor(std::move(storage), dtype, std::move(shape), std::move(strides), -first);
}

// Prepares a torch tensor for export: torch does not export tensors that require gradients, and
// DLPack has no conjugate and negative bits.
nb::object plain_elements(nb::handle array) {
  nb::object plain = nb::borrow(array);
  if (framework_of(array) != Framework::kTorch) return plain;
  if (nb::cast<bool>(plain.attr("requires_grad"))) plain = plain.attr("detach")();
  if (nb::cast<bool>(plain.attr("is_conj")())) plain = plain.attr("resolve_conj")();
  if (nb::cast<bool>(plain.attr("is_neg")())) plain = plain.attr("resolve_neg")();
  return plain;
}

std::string python_type(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

}  // namespace

Framework framework_of(nb::handle array) {
  const nb::handle torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
  if (!torch.is_valid() || torch.is_none()) return Framework::kNumpy;
  // While torch is being imported it has no Tensor yet.
  const nb::object tensor = nb::getattr(torch, "Tensor", nb::none());
  return !tensor.is_none() && nb::isinstance(array, tensor) ? Framework::kTorch : Framework::kNumpy;
}

Tensor tensor_of(nb::handle array, const std::string& subject) {
  Array view;
  const nb::object given = plain_elements(array);
  if (!nb::try_cast(given, view, false))
    throw Error("session", subject,
                fmt::format("got {}, want a numpy array or a dense torch tensor; convert the input",
                            python_type(array)));
  if (view.device_type() != nb::device::cpu::value)
    throw Error("session", subject, "is not on the CPU; move it there, as with .cpu()");
  if (view.data() == nullptr && view.size() != 0)
    throw Error("session", subject, "has no elements in memory (a fake tensor); give a real one");
  const DType dtype = dtype_of(view, subject);
  if (reinterpret_cast<uintptr_t>(view.data()) % std::min<size_t>(size_of(dtype), 8) != 0)
    throw Error("session", subject, "starts within an element; copy the array");
  return view_of(view, dtype);
}

nb::object array_of(const Tensor& tensor, Framework framework, const std::string& subject) {
  const DLPackType* type =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const DLPackType& row) { return row.dtype == tensor.dtype(); });
  const bool is_lacking = framework == Framework::kNumpy && tensor.dtype() == DType::kBFloat16;
  if (type == std::end(kTypes) || is_lacking)
    throw Error("session", subject,
                fmt::format("is {}, which {} lacks; {}", name_of(tensor.dtype()),
                            framework == Framework::kNumpy ? "numpy" : "DLPack",
                            is_lacking ? "pass torch tensors" : "cast the output in the model"));
  std::vector<size_t> shape;
  for (const int64_t size : tensor.shape()) shape.push_back(static_cast<size_t>(size));
  const nb::capsule owner(new Tensor(tensor),
                          [](void* kept) noexcept { delete static_cast<Tensor*>(kept); });
  const auto make = [&]<typename Target>(Target) {
    const nb::ndarray<Target> array(tensor.raw(), shape.size(), shape.data(), owner,
                                    tensor.strides().data(), to_dlpack(*type),
                                    nb::device::cpu::value);
    return nb::cast(array, nb::rv_policy::reference);
  };
  return framework == Framework::kNumpy ? make(nb::numpy()) : make(nb::pytorch());
}

}  // namespace octet::python
