// See the header. libxxhash is compiled into this file, so nothing links it.
#include "lowering/program/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>

namespace octet {

static_assert(std::endian::native == std::endian::little,
              "artifacts are little endian, and mapped as they are");

struct Checksum::State {
  XXH64_state_t hash;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH64_reset(&state_->hash, 0); }

Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH64_update(&state_->hash, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const { return XXH64_digest(&state_->hash); }

}  // namespace octet
