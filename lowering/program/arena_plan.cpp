// First fit by decreasing size.
#include "lowering/program/arena_plan.h"

#include <algorithm>
#include <numeric>

namespace octet {
namespace {

constexpr size_t kArenaAlignment = 64;

size_t arena_aligned(size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<ArenaBuffer>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  ArenaPlan plan;
  plan.offsets.resize(buffers.size());
  std::vector<size_t> placed;  // by rising offset
  for (size_t index : order) {
    const ArenaBuffer& buffer = buffers[index];
    size_t offset = 0;
    for (size_t other : placed) {
      if (buffers[other].last < buffer.first || buffer.last < buffers[other].first) continue;
      if (offset + arena_aligned(buffer.bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + arena_aligned(buffers[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + arena_aligned(buffer.bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), index,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        index);
  }
  return plan;
}

TensorArena allocate_arena(const Program& program, const std::map<int, ArenaBuffer>& buffers) {
  std::vector<ArenaBuffer> listed;
  for (const auto& [index, buffer] : buffers) listed.push_back(buffer);
  const ArenaPlan plan = plan_arena(listed);
  TensorArena arena;
  arena.block = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(plan.bytes)}).storage();
  size_t next = 0;
  for (const auto& [index, buffer] : buffers) {
    const ProgramTensor& tensor = program.tensor(index);
    auto view = std::make_shared<Storage>();
    view->data = arena.block->data + plan.offsets[next++];
    view->size = buffer.bytes;
    view->owner = arena.block;
    arena.tensors[index] =
        Tensor(std::move(view), tensor.dtype, tensor.shape, contiguous_strides(tensor.shape), 0);
  }
  return arena;
}

}  // namespace octet
