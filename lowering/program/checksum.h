// XXH64 (seed 0) of bytes that come in parts: finds damage, proves nothing about who wrote them.
// Free of torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace octet {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void add(std::span<const std::byte> bytes);
  // Of all bytes so far.
  uint64_t value() const;

 private:
  struct State;  // libxxhash's
  std::unique_ptr<State> state_;
};

}  // namespace octet
