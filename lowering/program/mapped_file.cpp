// See the header.
#include "lowering/program/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

namespace octet {

void Unmap::operator()(void* address) const { ::munmap(address, size); }

namespace {

void advise(const Storage& storage, std::span<const std::byte> bytes, int advice) {
  if (std::get_deleter<Unmap>(storage.owner) == nullptr) return;
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(bytes.data()) + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.raw(), tensor.nbytes()};
}

}  // namespace

void fetch_pages(const Storage& storage, std::span<const std::byte> bytes) {
#ifdef MADV_POPULATE_READ
  advise(storage, bytes, MADV_POPULATE_READ);
#else
  advise(storage, bytes, MADV_WILLNEED);
#endif
}

void release_pages(const Storage& storage, std::span<const std::byte> bytes) {
  advise(storage, bytes, MADV_DONTNEED);
}

void fetch_pages(const Tensor& constant) {
  if (constant.defined()) fetch_pages(*constant.storage(), bytes_of(constant));
}

void release_pages(const Tensor& constant) {
  if (constant.defined()) release_pages(*constant.storage(), bytes_of(constant));
}

}  // namespace octet
