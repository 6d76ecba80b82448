// The C++ type of a dtype's elements. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/dtype.h"
#include "core/base/error.h"

namespace octet::reference {

// Calls visit with a typed null pointer of the element type of an integer or bool dtype.
template <typename Visit>
void visit_integer_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::kUInt8:
      return visit(static_cast<uint8_t*>(nullptr));
    case DType::kInt8:
      return visit(static_cast<int8_t*>(nullptr));
    case DType::kUInt16:
      return visit(static_cast<uint16_t*>(nullptr));
    case DType::kInt16:
      return visit(static_cast<int16_t*>(nullptr));
    case DType::kUInt32:
      return visit(static_cast<uint32_t*>(nullptr));
    case DType::kInt32:
      return visit(static_cast<int32_t*>(nullptr));
    case DType::kUInt64:
      return visit(static_cast<uint64_t*>(nullptr));
    case DType::kInt64:
      return visit(static_cast<int64_t*>(nullptr));
    case DType::kBool:
      return visit(static_cast<bool*>(nullptr));
    default:
      OCTET_ASSERT(false,
                   "dtype " + std::string(name_of(dtype)) + " is not for the reference kernels");
  }
}

}  // namespace octet::reference
