// Places buffers with known lifetimes in one block of memory (an arena), so that buffers that are
// never in use at the same time share bytes.
//
// Steps are segments of a program, or ops of a segment. A buffer is in use from the step that makes
// it to the last step that reads it. Say step 0 makes a and r, step 1 turns a into b, step 2 turns
// b and r into c, and step 3 reads c:
//
//   buffer  bytes   step 0  1  2  3   offset
//   a       300          #  #         0     the largest
//   c       200                #  #   0     a is no longer in use
//   b       100             #  #      320   after a (300, rounded up to 320)
//   r       100          #  #  #      448   after b (420, rounded up to 448)
//
// The block takes 576 bytes instead of 832.
//
// Buffers are placed largest first, each at the lowest offset (a multiple of 64) where no placed
// buffer that is in use at the same time is in the way. This is the "greedy by size" planner of
// Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.
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
  size_t bytes = 0;             // size of the block
};

ArenaPlan plan_arena(const std::vector<ArenaBuffer>& buffers);

// The buffers, by tensor, of the tensors between segments. Inputs, outputs and states have none,
// because the caller provides their memory. A step is a segment.
std::map<int, ArenaBuffer> buffers_between_segments(const Program& program);
// The buffers, by tensor, of the tensors that only one segment uses. A step is an op.
std::map<int, ArenaBuffer> buffers_inside(const Program& program, const Segment& segment);

struct TensorArena {
  std::shared_ptr<Storage> block;  // filled with zeros
  std::map<int, Tensor> tensors;   // row-major views of it, by index
};

// Plans and allocates a block for these tensors of the program.
TensorArena allocate_arena(const Program& program, const std::map<int, ArenaBuffer>& buffers);

}  // namespace octet
