// Implements first fit by decreasing size, and computes the lifetimes of a program's tensors.
#include "lowering/program/arena_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace octet {
namespace {

constexpr size_t kArenaAlignment = 64;

size_t arena_aligned(size_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// The buffers placed so far, in lists by offset. Most buffers live for a few steps, so there is a
// list for each block of steps; this finds the buffers in use at the same time without searching
// all.
class PlacedBuffers {
  auto is_lower() const {
    return [this](size_t a, size_t b) { return offsets_[a] < offsets_[b]; };
  }

 public:
  PlacedBuffers(const std::vector<ArenaBuffer>& buffers, const std::vector<size_t>& offsets)
      : buffers_(buffers), offsets_(offsets) {}

  void insert(size_t index) {
    const auto [first, last] = blocks_of(buffers_[index]);
    insert_into(all_, index);
    if (last - first >= kFewBlocks) return insert_into(long_, index);
    for (int block = first; block <= last; ++block) insert_into(by_block_[block], index);
  }

  // All buffers in use at the same time, by offset, and some others; may contain duplicates.
  const std::vector<size_t>& near(const ArenaBuffer& buffer) {
    const auto [first, last] = blocks_of(buffer);
    if (last - first >= kFewBlocks) return all_;
    near_ = long_;
    for (int block = first; block <= last; ++block) {
      const std::vector<size_t>& added = by_block_[block];
      const auto middle = static_cast<std::ptrdiff_t>(near_.size());
      near_.insert(near_.end(), added.begin(), added.end());
      std::inplace_merge(near_.begin(), near_.begin() + middle, near_.end(), is_lower());
    }
    return near_;
  }

 private:
  static constexpr int kStepsInBlock = 128, kFewBlocks = 4;

  static std::pair<int, int> blocks_of(const ArenaBuffer& buffer) {
    return {buffer.first / kStepsInBlock, buffer.last / kStepsInBlock};
  }
  void insert_into(std::vector<size_t>& list, size_t index) {
    list.insert(std::upper_bound(list.begin(), list.end(), index, is_lower()), index);
  }

  const std::vector<ArenaBuffer>& buffers_;
  const std::vector<size_t>& offsets_;
  std::vector<size_t> all_, long_, near_;
  std::map<int, std::vector<size_t>> by_block_;
};

}  // namespace

ArenaPlan plan_arena(const std::vector<ArenaBuffer>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  ArenaPlan plan;
  plan.offsets.resize(buffers.size());
  PlacedBuffers placed(buffers, plan.offsets);
  for (size_t index : order) {
    const ArenaBuffer& buffer = buffers[index];
    size_t offset = 0;
    for (size_t other : placed.near(buffer)) {
      if (buffers[other].last < buffer.first || buffer.last < buffers[other].first) continue;
      if (offset + arena_aligned(buffer.bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + arena_aligned(buffers[other].bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + arena_aligned(buffer.bytes));
    placed.insert(index);
  }
  return plan;
}

namespace {

using Tensors = std::vector<int>;

// made and read: the tensors that each step makes and reads.
std::map<int, ArenaBuffer> lifetimes(const Program& program, size_t steps,
                                     const std::function<const Tensors&(size_t)>& made,
                                     const std::function<const Tensors&(size_t)>& read,
                                     const Tensors& elsewhere) {
  std::map<int, ArenaBuffer> buffers;
  for (size_t i = 0; i < steps; ++i) {
    const int step = static_cast<int>(i);
    for (int index : made(i))
      buffers.try_emplace(index, ArenaBuffer{program.tensor(index).nbytes(), step, step});
    for (int index : read(i))
      if (const auto found = buffers.find(index); found != buffers.end()) found->second.last = step;
  }
  for (int index : elsewhere) buffers.erase(index);
  return buffers;
}

}  // namespace

std::map<int, ArenaBuffer> buffers_between_segments(const Program& program) {
  const std::vector<Segment>& segments = program.segments;
  return lifetimes(
      program, segments.size(), [&](size_t i) -> const Tensors& { return segments[i].outputs; },
      [&](size_t i) -> const Tensors& { return segments[i].inputs; }, program.results());
}

std::map<int, ArenaBuffer> buffers_inside(const Program& program, const Segment& segment) {
  const auto op = [&](size_t i) -> const ProgramOp& { return program.op(segment.ops[i]); };
  return lifetimes(
      program, segment.ops.size(), [&](size_t i) -> const Tensors& { return op(i).outputs; },
      [&](size_t i) -> const Tensors& { return op(i).inputs; }, segment.outputs);
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
