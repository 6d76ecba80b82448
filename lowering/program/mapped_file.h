// The mapping behind constants that were read from a file. Free of torch.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/tensor.h"

namespace octet {

// The deleter of Storage::owner for a mapped file: it tells such memory from any other.
struct Unmap {
  size_t size;
  void operator()(void* address) const;
};

// Hints about the whole pages within `bytes`, which do nothing unless they lie in the storage of a
// mapped file. To fetch asks for all of them at once, as reading them one by one costs more; to
// release gives their memory back, and when they are read again they come from the file.
void fetch_pages(const Storage& storage, std::span<const std::byte> bytes);
void release_pages(const Storage& storage, std::span<const std::byte> bytes);
// Of a constant's elements. Undefined ones have none.
void fetch_pages(const Tensor& constant);
void release_pages(const Tensor& constant);

}  // namespace octet
