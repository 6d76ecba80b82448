// Caches the packed constants of a program in a file, so that the next start maps them instead of
// packing again.
//
// The file is a JSON description (offsets from the first block, lengths, checksums, what it was
// made for) and then the blocks, each at a multiple of 64 bytes.
//
// The cache only saves time. If an entry is missing, damaged, or from another CPU or library
// version, the constant is packed as without a cache, and one warning says why. A folder or file
// that another user owns (except root) or that others may write is refused in the same way. That
// check is what makes the file trustworthy: checksums detect accidental damage, not tampering.
//
// A process must not truncate the file while a program uses it, but may replace it by a rename, as
// save() does.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/tensor.h"

namespace octet {

struct PackedBlock {
  std::shared_ptr<std::byte> bytes;
  size_t size = 0;
};

// Not thread-safe.
class PackedCache {
 public:
  // folder: created on the first save. program: the checksum of the program's file. made_for: CPU
  // and libraries, as text. file: the program's bytes, if they were compared with the checksum;
  // then a constant in them is identified by its position.
  PackedCache(std::filesystem::path folder, std::string program, std::string made_for,
              std::shared_ptr<const Storage> file = nullptr);

  // Identifies a constant in a key: its position in the program's file, or the checksum of its
  // bytes.
  std::string name_of(std::span<const std::byte> constant) const;

  // Checks that a reader can use a block: at least that its size is right.
  using Fits = std::function<bool(const PackedBlock& block)>;
  // The read-only block stored under `key`, if its bytes match their checksum and it fits; else
  // nullopt.
  std::optional<PackedBlock> find(const std::string& key, const Fits& fits);
  // Adds a block for the next save(), which then drops it.
  void add(const std::string& key, PackedBlock block);
  // Writes a new file with the added blocks and those of the old file, which it replaces. Does
  // nothing if no block was added.
  void save();

  // What is wrong with the file or the folder, in at most one line.
  const std::string& warning() const { return warning_; }
  const std::filesystem::path& path() const { return path_; }

  // The cache of the compilation on this thread, or null.
  static PackedCache* current();
  // Makes `cache` (may be null) the current cache while this object lives.
  class Use {
   public:
    explicit Use(PackedCache* cache);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

   private:
    PackedCache* before_;
  };

 private:
  struct Entry {
    size_t offset = 0, size = 0;
    std::string checksum;
  };

  PackedBlock map_own_file();
  void open();
  void warn(const std::string& what);

  std::filesystem::path folder_, path_;
  std::string program_, made_for_, warning_;
  std::shared_ptr<const Storage> program_file_;  // kept alive, so that its addresses stay unique
  PackedBlock file_;
  bool is_refused_ = false;               // because of the folder
  std::map<std::string, Entry> entries_;  // entries of file_
  std::map<std::string, PackedBlock> added_;
};

}  // namespace octet
