// Memory of a run that the next run takes again: what kernels put into a Buffer comes from the pool
// of the session that runs, or of a segment that runs without one, and goes back to it. A second
// run asks for the same sizes in the same order, so it finds all of them there and the heap is left
// alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace octet::reference {

// Blocks by size, of which each freed one waits for the next request of its size. Not thread-safe.
class ScratchPool {
 public:
  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool();

  // At least `bytes`, aligned for any type. Without a pool in use (below) from the heap.
  static void* allocate(size_t bytes);
  static void release(void* block);

  // Makes a pool the one in use by this thread, as long as it lives; unless one is in use already:
  // all that runs within a run shares the pool of that.
  class Use {
   public:
    explicit Use(ScratchPool& pool);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

   private:
    ScratchPool* before_;
  };

 private:
  struct Header;
  std::map<size_t, Header*> waiting_;  // by size: a list
};

template <typename T>
struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() = default;
  template <typename U>
  ScratchAllocator(const ScratchAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(ScratchPool::allocate(count * sizeof(T))); }
  void deallocate(T* block, size_t) { ScratchPool::release(block); }
  bool operator==(const ScratchAllocator&) const { return true; }
};

template <typename T>
using Buffer = std::vector<T, ScratchAllocator<T>>;
using Sizes = Buffer<int64_t>;

}  // namespace octet::reference
