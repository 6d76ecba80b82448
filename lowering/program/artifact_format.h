// Names, alignment and checksum of .octet files, shared by writer and reader. lowering/ARTIFACT.md
// describes the layout.
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

// XXH64 (seed 0) of bytes that come in parts: finds damage, proves nothing about who wrote them.
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

inline constexpr int kVersion = 6;        // of the format, the newest that is read
inline constexpr int kOldestVersion = 1;  // that is read
// What is written is the least version that has what the program has, so that older readers take
// it: nothing of the following; constants that stand channels-last; states; bodies; counts.
inline constexpr int kPlainVersion = 2;
inline constexpr int kChannelsLastVersion = 3;
inline constexpr int kStatesVersion = 4;
inline constexpr int kBodiesVersion = 5;
inline constexpr int kCountsVersion = 6;
// of the data and of each constant in it, from the start of the file
inline constexpr size_t kAlignment = 64;
inline constexpr size_t aligned(size_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}
inline constexpr uint64_t kLargestHeader = 100'000'000;  // what readers of the layout take
// names of the filler tensors: the layout allows no holes
inline constexpr const char* kPadding = "__padding";

// A stored constant is several tensors of the file, under its name and one of these. Four-bit
// values stand in bytes.
inline constexpr const char* kValues = ":values";
inline constexpr const char* kSignedNibbles = ":i4";
inline constexpr const char* kUnsignedNibbles = ":u4";
inline constexpr const char* kScale = ":scale";
inline constexpr const char* kZeroPoint = ":zero_point";
// A filter in channels-last order is stored under its name and this one, with the shape of that
// order (filter_order.h).
inline constexpr const char* kChannelsLast = ":channels_last";
// The tensors of body i are stored under "body<i>/" and their names.
std::string body_prefix(size_t body);
// A tensor with a scale for each slice has its parameters under kScale (f32) and, unless all are 0,
// kZeroPoint (i32), each of shape [shape[axis]].

// The layout's name of a dtype, "I8"; null for those that it lacks. And back.
const char* find_dtype_name(DType dtype);
std::optional<DType> find_dtype_by_name(std::string_view name);

// The metadata's "checksum" is XXH64 in hexadecimal of the whole file, the digits themselves
// counted as zeros.
inline constexpr size_t kChecksumDigits = 16;
std::string checksum_digits(uint64_t checksum);
// Where the digits begin in the text of a header that has them.
std::optional<size_t> find_checksum(std::string_view header);

}  // namespace octet::artifact
