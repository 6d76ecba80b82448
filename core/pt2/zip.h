// Reads the directory and the members of a zip in memory, which may be damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

// A file in a zip.
struct ZipMember {
  std::string name;
  std::span<const std::byte> packed;  // its bytes in the zip
  uint64_t size = 0;                  // of the file
  uint32_t checksum = 0;              // its CRC-32
  uint16_t method = 0;                // 0: stored, 8: deflated
};

// The members of any zip, in the order of its directory. Throws Error(stage, path, ...) when it is
// damaged, also when a member would be larger than what DEFLATE can make of its bytes.
std::vector<ZipMember> zip_members(std::span<const std::byte> zip, const std::string& stage,
                                   const std::string& path);
// Writes the member's bytes to `to`; returns false when it is stored, and leaves `to` empty. Throws
// Error(stage, path, ...) when it is damaged, by its checksum too, or packed in another way.
bool unpack(const ZipMember& member, std::string& to, const std::string& stage,
            const std::string& path);

// The CRC-32 of zip records, by LibTorch's header.
uint32_t crc32(const void* bytes, size_t size);

// Protects against zip bombs before anything is unpacked: throws Error(stage, path, ...) when the
// members of the zip, by the sizes in its directory, take more than 200 times the bytes of the file
// (and more than a MiB). torch does not compress members, and recompressed archives stay far below
// that. Damage is left to the reader of the zip.
void check_unpacked_size(std::span<const std::byte> zip, const std::string& stage,
                         const std::string& path);

// Whether the directory names such a member.
bool has_member(std::span<const std::byte> zip, std::string_view name);

// The size of the header of a member before its name.
inline constexpr size_t kZipHeaderSize = 30;

}  // namespace octet
