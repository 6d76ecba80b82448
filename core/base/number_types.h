// Calls a generic function with the C++ type of a dtype's elements.
#pragma once

#include <string>

#include "core/base/dtype.h"
#include "core/base/error.h"

namespace octet {

// Calls visit with a null pointer to the element type of an integer or bool dtype; false for other
// dtypes.
template <typename Visit>
bool try_integer_type(DType dtype, const Visit& visit) {
  const auto is = [&](DType known, auto* type) {
    if (dtype == known) visit(type);
    return dtype == known;
  };
  return is(DType::kUInt8, static_cast<uint8_t*>(nullptr)) ||
         is(DType::kInt8, static_cast<int8_t*>(nullptr)) ||
         is(DType::kUInt16, static_cast<uint16_t*>(nullptr)) ||
         is(DType::kInt16, static_cast<int16_t*>(nullptr)) ||
         is(DType::kUInt32, static_cast<uint32_t*>(nullptr)) ||
         is(DType::kInt32, static_cast<int32_t*>(nullptr)) ||
         is(DType::kUInt64, static_cast<uint64_t*>(nullptr)) ||
         is(DType::kInt64, static_cast<int64_t*>(nullptr)) ||
         is(DType::kBool, static_cast<bool*>(nullptr));
}

// As try_integer_type, for a dtype that must be an integer or bool.
template <typename Visit>
void visit_integer_type(DType dtype, const Visit& visit) {
  OCTET_ASSERT(try_integer_type(dtype, visit),
               "dtype " + std::string(name_of(dtype)) + " has no integer elements");
}

// As try_integer_type, also for float32 and float64.
template <typename Visit>
bool try_number_type(DType dtype, const Visit& visit) {
  if (dtype == DType::kFloat32) return visit(static_cast<float*>(nullptr)), true;
  if (dtype == DType::kFloat64) return visit(static_cast<double*>(nullptr)), true;
  return try_integer_type(dtype, visit);
}

}  // namespace octet
