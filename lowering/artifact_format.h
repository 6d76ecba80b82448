// What writer and reader of .octet files share: names, alignment, the place of the checksum. The layout is told in lowering/ARTIFACT.md. Free of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.h"

namespace octet::artifact {

inline constexpr int kVersion = 2;                       // of the format, as written
inline constexpr int kOldestVersion = 1;                 // that is read
inline constexpr size_t kAlignment = 64;                 // of the data and of each constant in it, from the start of the file
inline constexpr uint64_t kLargestHeader = 100'000'000;  // what readers of the layout take
inline constexpr const char* kPadding = "__padding";     // names of the filler tensors: the layout allows no holes

// A stored constant is several tensors of the file, under its name and one of these. Four-bit values stand in bytes.
inline constexpr const char* kValues = ":values";
inline constexpr const char* kSignedNibbles = ":i4";
inline constexpr const char* kUnsignedNibbles = ":u4";
inline constexpr const char* kScale = ":scale";
inline constexpr const char* kZeroPoint = ":zero_point";
// Of a tensor with a scale for each slice, these two are its parameters: f32, and i32 unless all are 0; [shape[axis]].

// The layout's name of a dtype, "I8"; null for those that it lacks. And back.
const char* find_dtype_name(DType dtype);
std::optional<DType> find_dtype_by_name(std::string_view name);

// The metadata's "checksum" is XXH64 in hexadecimal of the whole file, the digits themselves counted as zeros.
inline constexpr size_t kChecksumDigits = 16;
std::string checksum_digits(uint64_t checksum);
// Where the digits begin in the text of a header that has them.
std::optional<size_t> find_checksum(std::string_view header);

}  // namespace octet::artifact
