#include "core/pt2/zip.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <caffe2/serialize/crc_alt.h>  // defines functions: for this file alone
#include <fmt/format.h>

#include "core/base/error.h"

// A function of miniz, which is part of LibTorch without its header. Returns the number of bytes
// written, or -1.
extern "C" size_t tinfl_decompress_mem_to_mem(void* to, size_t to_size, const void* from,
                                              size_t from_size, int flags);

namespace octet {
namespace {

// The directory is found like in miniz, LibTorch's reader: by the last end-of-directory record in
// the file.

constexpr uint64_t kMostTimes = 200, kLeastLimit = uint64_t{1} << 20;
constexpr size_t kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56, kEntrySize = 46;
constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                   kEntryMark = 0x02014b50, kHeaderMark = 0x04034b50;

using Bytes = std::span<const std::byte>;

// The little-endian number at `at`, which must be inside.
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

// Where a member is, according to its entry in the directory.
struct Place {
  uint64_t size = 0, packed = 0, header = 0;
};

// Numbers beyond 32 bits are in the extra fields, in this order.
Place place_of(Bytes zip, size_t entry) {
  constexpr uint32_t kIsBehind = 0xffffffff;
  constexpr uint16_t kLargeNumbers = 1;
  Place place{number_at<uint32_t>(zip, entry + 24), number_at<uint32_t>(zip, entry + 20),
              number_at<uint32_t>(zip, entry + 42)};
  size_t at = entry + kEntrySize + number_at<uint16_t>(zip, entry + 28);
  const size_t end = std::min(zip.size(), at + number_at<uint16_t>(zip, entry + 30));
  while (at < end && end - at >= 4) {
    const size_t next = at + 4 + number_at<uint16_t>(zip, at + 2);
    if (number_at<uint16_t>(zip, at) == kLargeNumbers) {
      at += 4;
      for (uint64_t* number : {&place.size, &place.packed, &place.header}) {
        if (*number != kIsBehind || std::min(next, end) < at + 8) continue;
        *number = number_at<uint64_t>(zip, at);
        at += 8;
      }
    }
    at = next;
  }
  return place;
}

// The entries of the directory.
std::vector<size_t> entries_of(Bytes zip) {
  std::vector<size_t> entries;
  for (size_t at = find_directory(zip).value_or(zip.size()); is_at(zip, at, kEntrySize, kEntryMark);
       at += kEntrySize + number_at<uint16_t>(zip, at + 28) + number_at<uint16_t>(zip, at + 30) +
             number_at<uint16_t>(zip, at + 32))
    entries.push_back(at);
  return entries;
}

// "" for one that reaches beyond the file.
std::string_view name_of_member(Bytes zip, size_t entry) {
  const size_t length = number_at<uint16_t>(zip, entry + 28);
  if (zip.size() - entry - kEntrySize < length) return "";
  return {reinterpret_cast<const char*>(zip.data()) + entry + kEntrySize, length};
}

uint64_t unpacked_size(Bytes zip) {
  uint64_t total = 0;
  for (size_t entry : entries_of(zip))
    if (__builtin_add_overflow(total, place_of(zip, entry).size, &total))
      return std::numeric_limits<uint64_t>::max();
  return total;
}

}  // namespace

bool has_member(Bytes zip, std::string_view name) {
  return std::ranges::any_of(entries_of(zip),
                             [&](size_t entry) { return name_of_member(zip, entry) == name; });
}

uint32_t crc32(const void* bytes, size_t size) { return ::crc32_fast(bytes, size); }

void check_unpacked_size(Bytes zip, const std::string& stage, const std::string& path) {
  const uint64_t size = unpacked_size(zip),
                 most = std::max<uint64_t>(kLeastLimit, kMostTimes * zip.size());
  if (size > most)
    throw Error(stage, path,
                fmt::format("its members take {} bytes when they are unpacked, want at most {}, {} "
                            "times the file; save it again with torch, which does not compress",
                            size, most, kMostTimes));
}

std::vector<ZipMember> zip_members(Bytes zip, const std::string& stage, const std::string& path) {
  constexpr uint64_t kMostRatio = 1032;  // of DEFLATE
  std::vector<ZipMember> members;
  for (size_t entry : entries_of(zip)) {
    const Place place = place_of(zip, entry);
    uint64_t begin = place.header;
    const bool has_header = is_at(zip, begin, kZipHeaderSize, kHeaderMark);
    if (has_header)
      begin += kZipHeaderSize + number_at<uint16_t>(zip, begin + 26) +
               number_at<uint16_t>(zip, begin + 28);
    if (!has_header || begin > zip.size() || zip.size() - begin < place.packed ||
        place.size / kMostRatio > place.packed + 1)
      throw Error(stage, path,
                  "has a member that does not fit its directory; the file is "
                  "damaged");
    members.push_back({.name = std::string(name_of_member(zip, entry)),
                       .packed = zip.subspan(begin, place.packed),
                       .size = place.size,
                       .checksum = number_at<uint32_t>(zip, entry + 16),
                       .method = number_at<uint16_t>(zip, entry + 10)});
  }
  if (members.empty())
    throw Error(stage, path, "has no directory of its members; the file is damaged");
  return members;
}

bool unpack(const ZipMember& member, std::string& to, const std::string& stage,
            const std::string& path) {
  constexpr uint16_t kStored = 0, kDeflated = 8;
  const auto damaged = [&](const char* how) {
    return Error(stage, path,
                 fmt::format("its member \"{}\" is damaged: {}; copy or write the file again",
                             member.name, how));
  };
  if (member.method != kStored && member.method != kDeflated)
    throw Error(stage, path,
                fmt::format("its member \"{}\" is packed with method {}, want 0 (stored) or 8 "
                            "(deflated); write it again",
                            member.name, member.method));
  const void* bytes = member.packed.data();
  if (member.method == kDeflated) {
    to.resize(member.size);
    if (tinfl_decompress_mem_to_mem(to.data(), to.size(), bytes, member.packed.size(), 0) !=
        member.size)
      throw damaged("it cannot be unpacked");
    bytes = to.data();
  } else if (member.size != member.packed.size()) {
    throw damaged("its sizes differ");
  }
  if (crc32(bytes, member.size) != member.checksum) throw damaged("its checksum does not match");
  return member.method == kDeflated;
}

}  // namespace octet
