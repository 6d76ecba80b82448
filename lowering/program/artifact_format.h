// Defines the names, the alignment and the checksum of .octet files for the writer and the reader.
// lowering/ARTIFACT.md describes the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/dtype.h"

namespace octet {

// Computes XXH64 (seed 0) of bytes that come in parts. It detects damage; it does not authenticate
// the writer.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  // The sum of all bytes so far.
  uint64_t value() const;

 private:
  struct State;  // libxxhash's
  std::unique_ptr<State> state_;
};

}  // namespace octet

namespace octet::artifact {

inline constexpr int kVersion = 9;        // the newest version of the format that is read
inline constexpr int kOldestVersion = 1;  // the oldest version that is read
// A file has the lowest version that can express its program, so that older readers accept it.
// Each adds to the ones before: channels-last constants, states, bodies, counts, bfloat16, states
// with scales, constants of 2 and 3 bits and narrow scales.
inline constexpr int kPlainVersion = 2;
inline constexpr int kChannelsLastVersion = 3;
inline constexpr int kStatesVersion = 4;
inline constexpr int kBodiesVersion = 5;
inline constexpr int kCountsVersion = 6;
inline constexpr int kBfloat16Version = 7;
inline constexpr int kScaledStatesVersion = 8;
inline constexpr int kNarrowVersion = 9;
// alignment of the data and of each constant, from the start of the file
inline constexpr size_t kAlignment = 64;
inline constexpr size_t aligned(size_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}
inline constexpr uint64_t kLargestHeader = 100'000'000;  // the limit of safetensors readers
// names of the filler tensors: the layout allows no holes
inline constexpr const char* kPadding = "__padding";

// A stored constant is several tensors of the file, with its name and one of these suffixes. Packed
// values have 2, 3 or 4 bits (pack_bits): ":i4", ":u3".
inline constexpr const char* kValues = ":values";
inline constexpr int kFewestBits = 2, kMostBits = 4;
std::string packed_suffix(DType dtype, int bits);  // dtype: int8 or uint8
inline constexpr const char* kScale = ":scale";
inline constexpr const char* kZeroPoint = ":zero_point";
// A filter in channels-last order has this suffix and the shape of that order (filter_order.h).
inline constexpr const char* kChannelsLast = ":channels_last";
// The tensors of body i have the prefix "body<i>/".
std::string body_prefix(size_t body);
// A tensor with a scale for each slice has its parameters in kScale (f32) and, unless all are 0,
// kZeroPoint (i32), each of shape [shape[axis]].

// The safetensors name of a dtype, such as "I8", or null if it has none; and the reverse.
const char* find_dtype_name(DType dtype);
std::optional<DType> find_dtype_by_name(std::string_view name);

// The metadata's "checksum" is the XXH64 of the whole file in hexadecimal, computed with its own
// digits as zeros.
inline constexpr size_t kChecksumDigits = 16;
std::string checksum_digits(uint64_t checksum);
// The position of the digits in the text of a header, if it has a checksum.
std::optional<size_t> find_checksum(std::string_view header);

}  // namespace octet::artifact
