// Where buffers with known lifetimes lie in one block of memory. Free of torch.
#pragma once

#include <cstddef>
#include <vector>

namespace octet {

// A buffer is in use from step `first` to step `last`, both included.
struct ArenaBuffer {
  size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct ArenaPlan {
  std::vector<size_t> offsets;  // one per buffer, multiples of 64
  size_t bytes = 0;             // of the whole block
};

// Greedy, largest buffers first, each at the lowest offset where no buffer in use at the same time lies.
ArenaPlan plan_arena(const std::vector<ArenaBuffer>& buffers);

}  // namespace octet
