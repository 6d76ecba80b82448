#include "core/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace octet {

MappedFile map_file(const std::filesystem::path& path, FileAccess access) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0) return map_file(descriptor, access);
  MappedFile file;
  file.code = errno;
  file.fault = MappedFile::Fault::kNotOpened;
  return file;
}

MappedFile map_file(int descriptor, FileAccess access) {
  MappedFile file;
  struct stat status{};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const size_t size = is_file ? static_cast<size_t>(status.st_size) : 0;
  const bool is_writable = access == FileAccess::kCopyOnWrite;
  void* address = size == 0
                      ? MAP_FAILED
                      : ::mmap(nullptr, size, is_writable ? PROT_READ | PROT_WRITE : PROT_READ,
                               MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
  file.code = errno;
  ::close(descriptor);
  if (address == MAP_FAILED) {
    file.fault = !is_file    ? MappedFile::Fault::kNoFile
                 : size == 0 ? MappedFile::Fault::kEmpty
                             : MappedFile::Fault::kNotMapped;
    return file;
  }
  file.code = 0;
  file.data = static_cast<std::byte*>(address);
  file.size = size;
  file.owner = std::shared_ptr<void>(address, Unmap{size});
  return file;
}

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
