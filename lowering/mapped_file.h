// The mapping behind constants that were read from a file. Free of torch.
#pragma once

#include <cstddef>

#include "core/tensor.h"

namespace octet {

// The deleter of Storage::owner for a mapped file: it tells such memory from any other.
struct Unmap {
  size_t size;
  void operator()(void* address) const;
};

// Gives the memory of the whole pages within a constant's bytes back; when they are read again they come from the file. Does nothing for constants that lie
// elsewhere. For weights that were copied into another form.
void release_pages(const Tensor& constant);

}  // namespace octet
