// XXH64 (seed 0) of bytes that come in parts: finds damage, proves nothing about who wrote them.
// Free of torch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace octet {

class Checksum {
 public:
  void add(std::span<const std::byte> bytes);
  // Of all bytes so far.
  uint64_t value() const;

 private:
  void add_block(const std::byte* block);

  static constexpr size_t kBlock = 32;  // bytes
  std::array<uint64_t, 4> lanes_ = {0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0,
                                    0x61C8864E7A143579u};
  std::array<std::byte, kBlock> rest_{};  // what does not fill a block yet
  uint64_t count_ = 0;                    // bytes so far
};

}  // namespace octet
