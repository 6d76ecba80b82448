// See the header. The words are little endian, as the hosts that Octet runs on.
#include "lowering/program/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace octet {
namespace {

static_assert(std::endian::native == std::endian::little,
              "artifacts are little endian, and mapped as they are");

constexpr uint64_t kPrimes[] = {0x9E3779B185EBCA87u, 0xC2B2AE3D27D4EB4Fu, 0x165667B19E3779F9u,
                                0x85EBCA77C2B2AE63u, 0x27D4EB2F165667C5u};

template <typename Word>
uint64_t word_at(const std::byte* bytes) {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint64_t mixed(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrimes[1], 31) * kPrimes[0];
}

}  // namespace

void Checksum::add_block(const std::byte* block) {
  for (size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i] = mixed(lanes_[i], word_at<uint64_t>(block + 8 * i));
}

void Checksum::add(std::span<const std::byte> bytes) {
  const size_t held = count_ % kBlock;
  count_ += bytes.size();
  if (held != 0) {
    const size_t taken = std::min(kBlock - held, bytes.size());
    std::copy_n(bytes.begin(), taken, rest_.begin() + static_cast<std::ptrdiff_t>(held));
    if (held + taken < kBlock) return;
    add_block(rest_.data());
    bytes = bytes.subspan(taken);
  }
  for (; bytes.size() >= kBlock; bytes = bytes.subspan(kBlock)) add_block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

uint64_t Checksum::value() const {
  uint64_t hash = lanes_[2] + kPrimes[4];
  if (count_ >= kBlock) {
    hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
           std::rotl(lanes_[3], 18);
    for (uint64_t lane : lanes_) hash = (hash ^ mixed(0, lane)) * kPrimes[0] + kPrimes[3];
  }
  hash += count_;
  const std::byte* next = rest_.data();
  const std::byte* const end = next + count_ % kBlock;
  for (; end - next >= 8; next += 8)
    hash = std::rotl(hash ^ mixed(0, word_at<uint64_t>(next)), 27) * kPrimes[0] + kPrimes[3];
  for (; end - next >= 4; next += 4)
    hash = std::rotl(hash ^ word_at<uint32_t>(next) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
  for (; end != next; ++next)
    hash = std::rotl(hash ^ word_at<uint8_t>(next) * kPrimes[4], 11) * kPrimes[0];
  hash = (hash ^ hash >> 33) * kPrimes[1];
  hash = (hash ^ hash >> 29) * kPrimes[2];
  return hash ^ hash >> 32;
}

}  // namespace octet
