// Finds the directory as miniz, LibTorch's reader, does: by the last end-of-directory record in the
// file.
#include "core/pt2/unpacked_size.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {
namespace {

constexpr uint64_t kMostTimes = 200, kLeastLimit = uint64_t{1} << 20;
constexpr size_t kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56, kEntrySize = 46;
constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                   kEntryMark = 0x02014b50;

using Bytes = std::span<const std::byte>;

// The little-endian number at a place that is there.
template <typename Number>
Number number_at(Bytes bytes, size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

bool is_at(Bytes bytes, size_t at, size_t size, uint32_t mark) {
  return at <= bytes.size() && bytes.size() - at >= size && number_at<uint32_t>(bytes, at) == mark;
}

std::optional<size_t> find_end(Bytes zip) {
  if (zip.size() < kEndSize) return std::nullopt;
  const size_t furthest = zip.size() - std::min(zip.size(), kEndSize + 0xffff);
  for (size_t at = zip.size() - kEndSize + 1; at-- > furthest;)
    if (is_at(zip, at, kEndSize, kEndMark)) return at;
  return std::nullopt;
}

// Where the first entry of the directory is.
std::optional<size_t> find_directory(Bytes zip) {
  const std::optional<size_t> end = find_end(zip);
  if (!end) return std::nullopt;
  if (*end >= kLocatorSize && is_at(zip, *end - kLocatorSize, kLocatorSize, kLocatorMark)) {
    const uint64_t end64 = number_at<uint64_t>(zip, *end - kLocatorSize + 8);
    if (is_at(zip, end64, kEnd64Size, kEnd64Mark)) return number_at<uint64_t>(zip, end64 + 48);
  }
  return number_at<uint32_t>(zip, *end + 16);
}

// What the entry says of its member, with the fields behind its name, which hold large sizes.
uint64_t stated_size(Bytes zip, size_t entry) {
  constexpr uint32_t kIsBehind = 0xffffffff;
  constexpr uint16_t kLargeSizes = 1;
  const uint32_t size = number_at<uint32_t>(zip, entry + 24);
  if (size != kIsBehind) return size;
  size_t at = entry + kEntrySize + number_at<uint16_t>(zip, entry + 28);
  const size_t end = std::min(zip.size(), at + number_at<uint16_t>(zip, entry + 30));
  while (at < end && end - at >= 4) {
    const size_t bytes = number_at<uint16_t>(zip, at + 2);
    if (number_at<uint16_t>(zip, at) == kLargeSizes && bytes >= 8 && end - at >= 12)
      return number_at<uint64_t>(zip, at + 4);
    at += 4 + bytes;
  }
  return size;
}

uint64_t unpacked_size(Bytes zip) {
  uint64_t total = 0;
  for (size_t at = find_directory(zip).value_or(zip.size()); is_at(zip, at, kEntrySize, kEntryMark);
       at += kEntrySize + number_at<uint16_t>(zip, at + 28) + number_at<uint16_t>(zip, at + 30) +
             number_at<uint16_t>(zip, at + 32))
    if (__builtin_add_overflow(total, stated_size(zip, at), &total))
      return std::numeric_limits<uint64_t>::max();
  return total;
}

}  // namespace

void check_unpacked_size(Bytes zip, const std::string& stage, const std::string& path) {
  const uint64_t size = unpacked_size(zip),
                 most = std::max<uint64_t>(kLeastLimit, kMostTimes * zip.size());
  if (size > most)
    throw Error(stage, path,
                fmt::format("its members take {} bytes when they are unpacked, want at most {}, {} "
                            "times the file; save it again with torch, which does not compress",
                            size, most, kMostTimes));
}

}  // namespace octet
