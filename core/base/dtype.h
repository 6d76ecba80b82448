// Element types of tensors. Free of torch, as the runtime uses it too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace octet {

enum class DType {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kUInt64,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplex32,
  kComplex64,
  kComplex128,
  kBool,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kFloat8E4M3FNUZ,
  kFloat8E5M2FNUZ,
  kFloat8E8M0FNU,
};

// Bytes per element.
size_t size_of(DType dtype);

// torch's name: "float32", "int8", "float8_e4m3fn", ...
std::string_view name_of(DType dtype);
std::optional<DType> find_dtype(std::string_view torch_name);

// The short name of the text form: "f32", "i8", "u8", "b8", "bf16", "c64", "f8e4m3fn", ...
std::string_view short_name_of(DType dtype);
std::optional<DType> find_dtype_by_short_name(std::string_view short_name);

bool is_floating_point(DType dtype);  // real floats only
bool is_integer(DType dtype);         // excludes bool

// Inclusive range of an integer dtype up to 32 bits. Requires is_integer(dtype) and at most 32
// bits.
struct IntegerRange {
  int64_t min;
  int64_t max;
};
IntegerRange integer_range(DType dtype);

}  // namespace octet
