// An area is a mapping of kAreaSize bytes, or of one larger block. Blocks are allocated from its
// front and never reused. Freeing a block returns its whole pages to the system; an area is
// unmapped when its last block is freed.
#include "backends/xnnpack/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace octet::xnnpack {
namespace {

// of address space; only touched pages use memory
constexpr size_t kAreaSize = size_t{32} << 20;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLeastLarge = size_t{64} << 10;  // smaller blocks use malloc

uintptr_t rounded_up(uintptr_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

struct Area {
  uintptr_t mapping = 0;  // argument of munmap
  size_t mapped = 0;
  uintptr_t next = 0;  // lower bound of the next block's address
  uintptr_t end = 0;
  size_t live = 0;  // blocks
};

class Areas {
 public:
  void* allocate(size_t alignment, size_t size) {
    const std::lock_guard lock(mutex_);
    if (current_ == areas_.end() ||
        rounded_up(current_->second.next, alignment) + size > current_->second.end) {
      if (!add_area(size + alignment)) return nullptr;
    }
    Area& area = current_->second;
    const uintptr_t block = rounded_up(area.next, alignment);
    blocks_[block] = {current_->first, size};  // done first, because it may throw
    area.next = block + size;
    ++area.live;
    return reinterpret_cast<void*>(block);
  }

  // The size of a block allocated here, 0 for other addresses.
  size_t size_of(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
    return found == blocks_.end() ? 0 : found->second.size;
  }

  // Returns false for addresses not allocated here.
  bool free(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(reinterpret_cast<uintptr_t>(address));
    if (block == blocks_.end()) return false;
    const auto area = areas_.find(block->second.area);
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t begin = rounded_up(block->first, page),
                    end = (block->first + block->second.size) / page * page;
    blocks_.erase(block);
    if (--area->second.live == 0) {
      ::munmap(reinterpret_cast<void*>(area->second.mapping), area->second.mapped);
      if (area == current_) current_ = areas_.end();
      areas_.erase(area);
    } else if (begin < end) {
      ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    }
    return true;
  }

 private:
  struct Block {
    uintptr_t area;  // key of areas_
    size_t size;
  };

  bool add_area(size_t least) {
    const size_t size = std::max(kAreaSize, rounded_up(least, kHugePage)),
                 mapped = size + kHugePage;
    void* mapping = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return false;
    const auto unmap = [mapped](void* begin) { ::munmap(begin, mapped); };
    std::unique_ptr<void, decltype(unmap)> owner(mapping, unmap);
    const uintptr_t begin = rounded_up(reinterpret_cast<uintptr_t>(mapping), kHugePage);
#ifdef MADV_HUGEPAGE
    ::madvise(reinterpret_cast<void*>(begin), size, MADV_HUGEPAGE);  // a hint
#endif
    current_ = areas_
                   .emplace(begin, Area{reinterpret_cast<uintptr_t>(mapping), mapped, begin,
                                        begin + size, 0})
                   .first;
    owner.release();
    return true;
  }

  std::mutex mutex_;
  std::map<uintptr_t, Area> areas_;
  std::map<uintptr_t, Area>::iterator current_ = areas_.end();
  std::map<uintptr_t, Block> blocks_;
};

// A substitute for memory that could not be allocated. XNNPACK does not check some of its small
// allocations; the reserve lets it reach the end of the call, which then counts as failed.
class Reserve {
 public:
  void* allocate(size_t alignment, size_t size) {
    const std::lock_guard lock(mutex_);
    const size_t begin = rounded_up(next_ + sizeof(size_t), std::max(alignment, sizeof(size_t)));
    if (alignment > alignof(Reserve) || size > kBytes || begin > kBytes - size) return nullptr;
    std::memcpy(bytes_ + begin - sizeof(size), &size, sizeof(size));
    next_ = begin + size;
    ++live_;
    return bytes_ + begin;
  }

  bool has(const void* address) const {
    return std::less_equal<>()(bytes_, address) && std::less<>()(address, bytes_ + kBytes);
  }
  static size_t size_of(const void* address) {
    size_t size = 0;
    std::memcpy(&size, static_cast<const std::byte*>(address) - sizeof(size), sizeof(size));
    return size;
  }

  void free() {
    const std::lock_guard lock(mutex_);
    if (--live_ == 0) next_ = 0;
  }

 private:
  static constexpr size_t kBytes = size_t{256} << 10;
  std::mutex mutex_;
  size_t next_ = 0, live_ = 0;
  alignas(64) std::byte bytes_[kBytes] = {};
};

Reserve reserve;
thread_local bool has_failed = false;

// Never destroyed: XNNPACK frees memory until the process exits.
Areas& areas() {
  static Areas* const only = new Areas;
  return *only;
}

// Does not throw, because XNNPACK, a C library, calls it.
void* allocate_aligned(void*, size_t alignment, size_t size) try {
  if (size >= kLeastLarge) return areas().allocate(alignment, size);
  void* block = nullptr;
  if (::posix_memalign(&block, alignment, size) == 0) return block;
  has_failed = true;
  return reserve.allocate(alignment, size);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void* allocate(void* context, size_t size) {
  return allocate_aligned(context, alignof(std::max_align_t), size);
}

void release(void*, void* address) {
  if (reserve.has(address)) return reserve.free();
  if (address != nullptr && !areas().free(address)) std::free(address);
}

void* reallocate(void* context, void* address, size_t size) {
  const size_t old = address == nullptr     ? 0
                     : reserve.has(address) ? Reserve::size_of(address)
                                            : areas().size_of(address);
  // blocks that began small stay with malloc
  if (old == 0 && (address != nullptr || size < kLeastLarge)) return std::realloc(address, size);
  void* block = allocate(context, size);
  if (old == 0) return block;
  if (block == nullptr) return nullptr;
  std::memcpy(block, address, std::min(old, size));
  release(context, address);
  return block;
}

}  // namespace

bool take_failure() { return std::exchange(has_failed, false); }

const xnn_allocator* memory_source() {
  static const xnn_allocator source = {nullptr, allocate,         reallocate,
                                       release, allocate_aligned, release};
  return &source;
}

}  // namespace octet::xnnpack
