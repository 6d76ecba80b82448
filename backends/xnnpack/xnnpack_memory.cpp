// See the header.
#include "backends/xnnpack/xnnpack_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace octet::xnnpack {
namespace {

constexpr size_t kChunk = size_t{2} << 20;  // bytes; a large page
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kLarge = SIZE_MAX;  // one allocation for each block, so that the sanitizer sees where it ends
#else
constexpr size_t kLarge = 32 * 1024;  // smaller blocks are malloc's
#endif

size_t rounded_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

}  // namespace

struct BlockPool::Chunk {
  std::byte* memory;
  size_t size;
  size_t used;
  size_t blocks;
};

// Stands before each block.
struct BlockPool::Header {
  Chunk* chunk;  // null: malloc's
  void* base;    // of malloc's
  size_t size;   // of the block
};

void* BlockPool::take(size_t alignment, size_t size) {
  alignment = std::max(alignment, alignof(std::max_align_t));
  const size_t lead = rounded_up(sizeof(Header), alignment);
  if (size > SIZE_MAX / 2) return nullptr;
  if (size >= kLarge) return cut(lead, alignment, size);
  void* base = nullptr;
  if (::posix_memalign(&base, alignment, lead + size) != 0) return nullptr;
  std::byte* const block = static_cast<std::byte*>(base) + lead;
  *(reinterpret_cast<Header*>(block) - 1) = {nullptr, base, size};
  return block;
}

void* BlockPool::cut(size_t lead, size_t alignment, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t begin = current_ == nullptr ? 0 : rounded_up(current_->used, alignment);
  if (current_ == nullptr || begin + lead + size > current_->size) {
    const size_t bytes = rounded_up(lead + size, kChunk);
    void* const memory = std::aligned_alloc(kChunk, bytes);
    if (memory == nullptr) return nullptr;
#ifdef MADV_HUGEPAGE
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // only a hint
#endif
    if (current_ != nullptr && current_->blocks == 0) {
      std::free(current_->memory);
      delete current_;
    }
    current_ = new Chunk{static_cast<std::byte*>(memory), bytes, 0, 0};
    begin = 0;
  }
  std::byte* const block = current_->memory + begin + lead;
  *(reinterpret_cast<Header*>(block) - 1) = {current_, nullptr, size};
  current_->used = begin + lead + size;
  ++current_->blocks;
  return block;
}

void* BlockPool::resize(void* block, size_t size) {
  void* const moved = take(alignof(std::max_align_t), size);
  if (block == nullptr || moved == nullptr) return moved;
  std::memcpy(moved, block, std::min(size, (static_cast<Header*>(block) - 1)->size));
  give_back(block);
  return moved;
}

void BlockPool::give_back(void* block) {
  if (block == nullptr) return;
  const Header header = *(static_cast<Header*>(block) - 1);
  if (header.chunk == nullptr) return std::free(header.base);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (--header.chunk->blocks != 0) return;
  std::free(header.chunk->memory);
  if (header.chunk == current_) current_ = nullptr;
  delete header.chunk;
}

BlockPool& runtime_blocks() {
  static BlockPool& pool = *new BlockPool;  // outlives whatever is destroyed at exit
  return pool;
}

std::shared_ptr<std::byte> scratch_block(size_t size) {
  static BlockPool& pool = *new BlockPool;
  std::byte* const block = static_cast<std::byte*>(pool.take(64, size));
  if (block == nullptr) throw std::bad_alloc();
  return {block, [](std::byte* taken) { pool.give_back(taken); }};
}

}  // namespace octet::xnnpack
