// Blocks for what is large and written at once when a segment is compiled: reordered filters, XNNPACK's packed weights and tables of addresses. They are cut from chunks of
// large pages, since taking small pages from the system one by one costs more than writing them.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

namespace octet::xnnpack {

// Thread-safe. A chunk is given back when the last of its blocks is.
class BlockPool {
 public:
  // alignment: a power of two. Null when there is no memory.
  void* take(size_t alignment, size_t size);
  // A block of another size with the same content, as realloc.
  void* resize(void* block, size_t size);
  void give_back(void* block);  // null is fine

 private:
  struct Chunk;
  struct Header;
  void* cut(size_t lead, size_t alignment, size_t size);

  std::mutex mutex_;
  Chunk* current_ = nullptr;  // what new blocks are cut from
};

// Blocks of different lifetimes come from different pools, so that one kind does not hold the other's chunks.
BlockPool& runtime_blocks();
// Uninitialized, of the pool for what lives until the runtime is made. Throws std::bad_alloc.
std::shared_ptr<std::byte> scratch_block(size_t size);

}  // namespace octet::xnnpack
