// Files in memory: mapped whole, with hints about the pages of what is read from them. Free of
// torch.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "core/base/tensor.h"

namespace octet {

// The bytes of a regular file, which come from it when they are read.
struct MappedFile {
  enum class Fault { kNone, kNotOpened, kNoFile, kEmpty, kNotMapped };
  std::byte* data = nullptr;  // null when there is a fault
  size_t size = 0;
  std::shared_ptr<void> owner;  // its deleter is an Unmap
  Fault fault = Fault::kNone;
  int code = 0;  // kNotOpened, kNotMapped: errno
};
// kCopyOnWrite: what is written stays in this process.
enum class FileAccess { kReadOnly, kCopyOnWrite };
// A pipe is refused (kNoFile), not waited for.
MappedFile map_file(const std::filesystem::path& path, FileAccess access);
// Of an open file, which is closed.
MappedFile map_file(int descriptor, FileAccess access);

// The deleter of Storage::owner for a mapped file: it tells such memory from any other.
struct Unmap {
  size_t size;
  void operator()(void* address) const;
};

// Hints about the whole pages within `bytes`, which do nothing unless they lie in the storage of a
// mapped file. To fetch asks for all of them at once, as reading them one by one costs more; to
// release gives their memory back, and when they are read again they come from the file.
void fetch_pages(const Storage& storage, std::span<const std::byte> bytes);
void release_pages(const Storage& storage, std::span<const std::byte> bytes);
// Of a constant's elements. Undefined ones have none.
void fetch_pages(const Tensor& constant);
void release_pages(const Tensor& constant);

}  // namespace octet
