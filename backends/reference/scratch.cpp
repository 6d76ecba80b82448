// A header before each block names its pool and list.
#include "backends/reference/scratch.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <new>

namespace octet::reference {
namespace {

constexpr size_t kLeastBlock = 64;
thread_local ScratchPool* in_use = nullptr;

// Rounds up by at most an eighth, to limit the number of different sizes.
size_t rounded_up(size_t bytes) {
  const size_t unit = std::max(kLeastBlock, std::bit_floor(bytes) / 8);
  if (bytes > std::numeric_limits<size_t>::max() - 2 * unit) throw std::bad_alloc();
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

struct alignas(std::max_align_t) ScratchPool::Header {
  ScratchPool* pool;  // null: from the heap
  size_t size;
  Header* next;
};

ScratchPool::~ScratchPool() {
  for (const auto& [size, first] : waiting_)
    for (Header* header = first; header != nullptr;) {
      Header* const next = header->next;
      ::operator delete(header);
      header = next;
    }
}

void* ScratchPool::allocate(size_t bytes) {
  const size_t size = rounded_up(bytes);
  if (in_use != nullptr) {
    Header*& waiting = in_use->waiting_[size];
    if (Header* const header = waiting) {
      waiting = header->next;
      return header + 1;
    }
  }
  return new (::operator new(sizeof(Header) + size)) Header{in_use, size, nullptr} + 1;
}

void ScratchPool::release(void* block) {
  if (block == nullptr) return;
  Header* const header = static_cast<Header*>(block) - 1;
  if (header->pool == nullptr) return ::operator delete(header);
  Header*& waiting = header->pool->waiting_[header->size];
  header->next = waiting;
  waiting = header;
}

ScratchPool::Use::Use(ScratchPool& pool) : before_(in_use) {
  if (in_use == nullptr) in_use = &pool;
}
ScratchPool::Use::~Use() { in_use = before_; }

}  // namespace octet::reference
