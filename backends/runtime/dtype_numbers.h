// Converts dtypes to the numbers of octet.h and back.
#pragma once

#include <optional>
#include <utility>

#include "backends/runtime/octet.h"
#include "core/base/dtype.h"

namespace octet {

inline constexpr std::pair<DType, octet_dtype> kDTypeNumbers[] = {
    {DType::kBool, OCTET_BOOL},         {DType::kUInt8, OCTET_UINT8},
    {DType::kInt8, OCTET_INT8},         {DType::kUInt16, OCTET_UINT16},
    {DType::kInt16, OCTET_INT16},       {DType::kUInt32, OCTET_UINT32},
    {DType::kInt32, OCTET_INT32},       {DType::kUInt64, OCTET_UINT64},
    {DType::kInt64, OCTET_INT64},       {DType::kFloat16, OCTET_FLOAT16},
    {DType::kBFloat16, OCTET_BFLOAT16}, {DType::kFloat32, OCTET_FLOAT32},
    {DType::kFloat64, OCTET_FLOAT64},
};

inline octet_dtype number_of(DType dtype) {
  for (const auto& [known, number] : kDTypeNumbers)
    if (known == dtype) return number;
  return OCTET_OTHER;
}

// Nullopt for OCTET_OTHER and numbers that octet.h does not have.
inline std::optional<DType> find_dtype(octet_dtype wanted) {
  for (const auto& [dtype, number] : kDTypeNumbers)
    if (number == wanted) return dtype;
  return std::nullopt;
}

}  // namespace octet
