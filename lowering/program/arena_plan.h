// Where buffers with known lifetimes lie in one block of memory. Free of torch.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "lowering/program/program.h"

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

// Greedy, largest buffers first, each at the lowest offset where no buffer in use at the same time
// lies.
ArenaPlan plan_arena(const std::vector<ArenaBuffer>& buffers);

struct TensorArena {
  std::shared_ptr<Storage> block;  // filled with zeros
  std::map<int, Tensor> tensors;   // row-major views of it, by index
};

// A block for these tensors of the program, planned by their buffers.
TensorArena allocate_arena(const Program& program, const std::map<int, ArenaBuffer>& buffers);

}  // namespace octet
