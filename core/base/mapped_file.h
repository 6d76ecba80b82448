// Maps files into memory, with hints about pages that are needed or no longer needed. Free of
// torch.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "core/base/tensor.h"

namespace octet {

// The bytes of a regular file, loaded when they are read.
struct MappedFile {
  enum class Fault { kNone, kNotOpened, kNoFile, kEmpty, kNotMapped };
  std::byte* data = nullptr;  // null on a fault
  size_t size = 0;
  std::shared_ptr<void> owner;  // its deleter is an Unmap
  Fault fault = Fault::kNone;
  int code = 0;  // kNotOpened, kNotMapped: errno
};
// kCopyOnWrite: writes stay in this process.
enum class FileAccess { kReadOnly, kCopyOnWrite };
// Refuses a pipe (kNoFile) instead of waiting for it.
MappedFile map_file(const std::filesystem::path& path, FileAccess access);
// Maps an open file and closes the descriptor.
MappedFile map_file(int descriptor, FileAccess access);

// The deleter of Storage::owner for a mapped file, by which mapped memory is recognized.
struct Unmap {
  size_t size;
  void operator()(void* address) const;
};

// Hints about the whole pages within `bytes`; no effect outside of a mapped file. fetch_pages()
// loads them at once, which is cheaper than one by one; release_pages() frees their memory until
// they are read again.
void fetch_pages(const Storage& storage, std::span<const std::byte> bytes);
void release_pages(const Storage& storage, std::span<const std::byte> bytes);
// These hints for the elements of a constant, which may be undefined.
void fetch_pages(const Tensor& constant);
void release_pages(const Tensor& constant);

}  // namespace octet
