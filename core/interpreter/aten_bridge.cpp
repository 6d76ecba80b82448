#include "core/interpreter/aten_bridge.h"

#include <c10/core/DispatchKeySet.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

struct TypeRow {
  DType dtype;
  c10::ScalarType type;
};

constexpr std::array<TypeRow, 21> kTypes = {{
    {DType::kUInt8, c10::ScalarType::Byte},
    {DType::kInt8, c10::ScalarType::Char},
    {DType::kUInt16, c10::ScalarType::UInt16},
    {DType::kInt16, c10::ScalarType::Short},
    {DType::kUInt32, c10::ScalarType::UInt32},
    {DType::kInt32, c10::ScalarType::Int},
    {DType::kUInt64, c10::ScalarType::UInt64},
    {DType::kInt64, c10::ScalarType::Long},
    {DType::kFloat16, c10::ScalarType::Half},
    {DType::kBFloat16, c10::ScalarType::BFloat16},
    {DType::kFloat32, c10::ScalarType::Float},
    {DType::kFloat64, c10::ScalarType::Double},
    {DType::kComplex32, c10::ScalarType::ComplexHalf},
    {DType::kComplex64, c10::ScalarType::ComplexFloat},
    {DType::kComplex128, c10::ScalarType::ComplexDouble},
    {DType::kBool, c10::ScalarType::Bool},
    {DType::kFloat8E4M3FN, c10::ScalarType::Float8_e4m3fn},
    {DType::kFloat8E5M2, c10::ScalarType::Float8_e5m2},
    {DType::kFloat8E4M3FNUZ, c10::ScalarType::Float8_e4m3fnuz},
    {DType::kFloat8E5M2FNUZ, c10::ScalarType::Float8_e5m2fnuz},
    {DType::kFloat8E8M0FNU, c10::ScalarType::Float8_e8m0fnu},
}};

void drop_owner(void* context) { delete static_cast<std::shared_ptr<Storage>*>(context); }

}  // namespace

c10::ScalarType to_scalar_type(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.type;
  OCTET_ASSERT(false, "dtype without a torch type");
}

DType from_scalar_type(c10::ScalarType type) {
  for (const TypeRow& row : kTypes)
    if (row.type == type) return row.dtype;
  throw Error("torch", c10::toString(type),
              "the dtype is not supported, want an integer, float, bool or complex dtype of at "
              "least 8 bits");
}

c10::Layout to_layout(Layout layout) {
  constexpr std::pair<Layout, c10::Layout> kLayouts[] = {
      {Layout::kSparseCoo, c10::Layout::Sparse},    {Layout::kSparseCsr, c10::Layout::SparseCsr},
      {Layout::kSparseCsc, c10::Layout::SparseCsc}, {Layout::kSparseBsr, c10::Layout::SparseBsr},
      {Layout::kSparseBsc, c10::Layout::SparseBsc}, {Layout::kMkldnn, c10::Layout::Mkldnn},
      {Layout::kStrided, c10::Layout::Strided},
  };
  for (const auto& [known, found] : kLayouts)
    if (known == layout) return found;
  throw Error("run", "layout",
              "got an unknown layout, want one of torch's; export the program again");
}

c10::MemoryFormat to_memory_format(MemoryFormat format) {
  constexpr std::pair<MemoryFormat, c10::MemoryFormat> kFormats[] = {
      {MemoryFormat::kContiguous, c10::MemoryFormat::Contiguous},
      {MemoryFormat::kChannelsLast, c10::MemoryFormat::ChannelsLast},
      {MemoryFormat::kChannelsLast3d, c10::MemoryFormat::ChannelsLast3d},
      {MemoryFormat::kPreserve, c10::MemoryFormat::Preserve},
  };
  for (const auto& [known, found] : kFormats)
    if (known == format) return found;
  throw Error("run", "memory format",
              "got an unknown memory format, want one of torch's; export the program again");
}

c10::Storage to_aten_storage(const std::shared_ptr<Storage>& storage) {
  OCTET_ASSERT(storage != nullptr, "no storage");
  at::DataPtr bytes(storage->data, new std::shared_ptr<Storage>(storage), &drop_owner,
                    c10::Device(c10::DeviceType::CPU));
  return c10::Storage(c10::Storage::use_byte_size_t(), storage->size, std::move(bytes), nullptr,
                      false);
}

at::Tensor to_aten(const Tensor& tensor, const c10::Storage& storage) {
  const c10::ScalarType type = to_scalar_type(tensor.dtype());
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(type));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.shape(), tensor.strides(),
                                                      tensor.offset());
  return result;
}

at::Tensor to_aten(const Tensor& tensor) {
  if (!tensor.defined()) return at::Tensor();
  return to_aten(tensor, to_aten_storage(tensor.storage()));
}

Tensor from_aten(const at::Tensor& tensor) {
  if (!tensor.defined()) return Tensor();
  if (tensor.layout() != c10::kStrided || !tensor.device().is_cpu() || tensor.is_quantized())
    throw Error("torch", "tensor",
                fmt::format("got a {} tensor on {}, want a dense one on the CPU",
                            tensor.is_quantized() ? "quantized" : "sparse or foreign",
                            tensor.device().str()));
  const at::Tensor plain =
      tensor.is_neg() || tensor.is_conj() ? tensor.resolve_conj().resolve_neg() : tensor;
  auto keep = std::make_shared<c10::Storage>(plain.storage());
  auto storage = std::make_shared<Storage>();
  storage->data = static_cast<std::byte*>(const_cast<void*>(keep->data()));
  storage->size = keep->nbytes();
  storage->owner = keep;
  return Tensor(std::move(storage), from_scalar_type(plain.scalar_type()), plain.sizes().vec(),
                plain.strides().vec(), plain.storage_offset());
}

}  // namespace octet
