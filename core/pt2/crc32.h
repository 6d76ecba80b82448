#pragma once

#include <cstddef>
#include <cstdint>

namespace octet {

// Of zip: the CRC-32 of its records. By LibTorch's header.
uint32_t crc32(const void* bytes, size_t size);

}  // namespace octet
