#include "core/base/dtype.h"

#include <array>

#include "core/base/error.h"

namespace octet {
namespace {

enum class Class { kInteger, kFloat, kOther };

struct Row {
  DType dtype;
  size_t size;
  std::string_view name;
  std::string_view short_name;
  Class kind;
};

constexpr std::array<Row, 21> kRows = {{
    {DType::kUInt8, 1, "uint8", "u8", Class::kInteger},
    {DType::kInt8, 1, "int8", "i8", Class::kInteger},
    {DType::kUInt16, 2, "uint16", "u16", Class::kInteger},
    {DType::kInt16, 2, "int16", "i16", Class::kInteger},
    {DType::kUInt32, 4, "uint32", "u32", Class::kInteger},
    {DType::kInt32, 4, "int32", "i32", Class::kInteger},
    {DType::kUInt64, 8, "uint64", "u64", Class::kInteger},
    {DType::kInt64, 8, "int64", "i64", Class::kInteger},
    {DType::kFloat16, 2, "float16", "f16", Class::kFloat},
    {DType::kBFloat16, 2, "bfloat16", "bf16", Class::kFloat},
    {DType::kFloat32, 4, "float32", "f32", Class::kFloat},
    {DType::kFloat64, 8, "float64", "f64", Class::kFloat},
    {DType::kComplex32, 4, "complex32", "c32", Class::kOther},
    {DType::kComplex64, 8, "complex64", "c64", Class::kOther},
    {DType::kComplex128, 16, "complex128", "c128", Class::kOther},
    {DType::kBool, 1, "bool", "b8", Class::kOther},
    {DType::kFloat8E4M3FN, 1, "float8_e4m3fn", "f8e4m3fn", Class::kFloat},
    {DType::kFloat8E5M2, 1, "float8_e5m2", "f8e5m2", Class::kFloat},
    {DType::kFloat8E4M3FNUZ, 1, "float8_e4m3fnuz", "f8e4m3fnuz", Class::kFloat},
    {DType::kFloat8E5M2FNUZ, 1, "float8_e5m2fnuz", "f8e5m2fnuz", Class::kFloat},
    {DType::kFloat8E8M0FNU, 1, "float8_e8m0fnu", "f8e8m0fnu", Class::kFloat},
}};

const Row& row(DType dtype) { return kRows.at(static_cast<size_t>(dtype)); }

}  // namespace

size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view short_name_of(DType dtype) { return row(dtype).short_name; }
bool is_floating_point(DType dtype) { return row(dtype).kind == Class::kFloat; }
bool is_integer(DType dtype) { return row(dtype).kind == Class::kInteger; }

std::optional<DType> find_dtype(std::string_view torch_name) {
  for (const Row& r : kRows)
    if (r.name == torch_name) return r.dtype;
  return std::nullopt;
}

std::optional<DType> find_dtype_by_short_name(std::string_view short_name) {
  for (const Row& r : kRows)
    if (r.short_name == short_name) return r.dtype;
  return std::nullopt;
}

IntegerRange integer_range(DType dtype) {
  OCTET_ASSERT(is_integer(dtype) && size_of(dtype) <= 4, std::string(name_of(dtype)));
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  const bool is_unsigned = name_of(dtype).front() == 'u';
  if (is_unsigned) return {0, (int64_t{1} << bits) - 1};
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

}  // namespace octet
