// A 128-bit hash that tells programs and their weights apart within one process. Not cryptographic.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace octet {

class Digest {
 public:
  // Includes the length, so "ab", "c" differs from "a", "bc".
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    size_t i = 0;
    for (; i + sizeof(uint64_t) <= bytes.size(); i += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, sizeof(word));
      mix(word);
    }
    uint64_t rest = 0;
    if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
    mix(rest);
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text.data(), text.size()))); }

  std::string text() const { return fmt::format("{:016x}{:016x}", spread(a_), spread(b_)); }

 private:
  // Two sums mixed in different ways: one multiplies after adding the word, one before.
  void mix(uint64_t word) {
    a_ = (a_ ^ word) * 0x9E3779B97F4A7C15u;
    a_ ^= a_ >> 32;
    b_ = (b_ + word) * 0xC2B2AE3D27D4EB4Fu + 1;
    b_ = (b_ << 29) | (b_ >> 35);
  }
  static uint64_t spread(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCDu;
    return x ^ (x >> 33);
  }

  uint64_t a_ = 0x243F6A8885A308D3u, b_ = 0x13198A2E03707344u;
};

}  // namespace octet
