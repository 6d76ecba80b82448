// Converts between octet::Tensor and at::Tensor. Both share the bytes, and the one that lives
// longer keeps them alive.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include "core/base/dtype.h"
#include "core/base/tensor.h"
#include "core/graph/graph.h"

namespace octet {

c10::ScalarType to_scalar_type(DType dtype);
// Throws Error for unsupported types (quantized tensors, bits, sub-byte integers).
DType from_scalar_type(c10::ScalarType type);

// Throw Error for kUnknown.
c10::Layout to_layout(Layout layout);
c10::MemoryFormat to_memory_format(MemoryFormat format);

// A view of the same bytes. An undefined Tensor gives an undefined at::Tensor.
at::Tensor to_aten(const Tensor& tensor);
// A torch storage over the bytes of `storage`; tensors made on one torch storage stay views of each
// other.
c10::Storage to_aten_storage(const std::shared_ptr<Storage>& storage);
at::Tensor to_aten(const Tensor& tensor, const c10::Storage& storage);
// Throws Error for tensors that are not dense on the CPU (sparse, quantized, meta).
Tensor from_aten(const at::Tensor& tensor);

}  // namespace octet
