// Reuses the scratch memory of reference kernels from run to run. A Buffer in a kernel takes its
// memory from the pool of the current session (or of a segment that runs without one) and returns
// it there. The second run asks for the same sizes in the same order, so it allocates nothing from
// the heap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace octet::reference {

// Free blocks by size; a request takes a freed block of the same size. Not thread-safe.
class ScratchPool {
 public:
  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool();

  // Allocates at least `bytes`, aligned for any type; from the heap when no pool is in use.
  static void* allocate(size_t bytes);
  static void release(void* block);

  // Makes `pool` the current pool of this thread for the lifetime of this object. If a pool is
  // current already, nested runs share that one.
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
  std::map<size_t, Header*> waiting_;  // by size: a list of free blocks
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
