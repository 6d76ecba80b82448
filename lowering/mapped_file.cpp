// See the header.
#include "lowering/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

namespace octet {

void Unmap::operator()(void* address) const { ::munmap(address, size); }

void release_pages(const Tensor& constant) {
  if (!constant.defined() || std::get_deleter<Unmap>(constant.storage()->owner) == nullptr) return;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(constant.raw()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(constant.raw()) + constant.nbytes()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace octet
