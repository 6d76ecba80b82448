// Keeps the packed constants of a program in a cache file, so that the next start maps them instead
// of packing again.
//
// The file is a description in JSON (offsets from the first block on, lengths, checksums, what it
// was made for), then the blocks, each at a multiple of 64 bytes. It is an aid and no more: what is
// missing, damaged, or of another CPU or library is packed as without it, and told in one warning.
// So is a folder or a file that belongs to another user (but root), or that others may write.
// Checksums find damage by accident. They prove nothing about who wrote the file: that only this
// user may write it is what it is trusted for.
// Nobody may cut the file off while a program uses it; another file may take its place by a rename,
// as saving does.
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
  // folder: made when something is saved and it is not there. program: the checksum of its file.
  // made_for: CPU and libraries, as text. file: the program's bytes where they have that checksum,
  // so that a constant in them is known by its place.
  PackedCache(std::filesystem::path folder, std::string program, std::string made_for,
              std::shared_ptr<const Storage> file = nullptr);

  // A constant's bytes as a part of a key: where they stand in the program's file, or their
  // checksum.
  std::string name_of(std::span<const std::byte> constant) const;

  // Whether a block is one that its reader can read: it has the right size at least.
  using Fits = std::function<bool(const PackedBlock& block)>;
  // The block that was stored under `key`, its bytes compared with their checksum; nothing when
  // there is none that fits. Only to be read.
  std::optional<PackedBlock> find(const std::string& key, const Fits& fits);
  // For save(), which drops it.
  void add(const std::string& key, PackedBlock block);
  // Writes what was added and what was read before into a new file, which takes the place of the
  // old one. Nothing to do when nothing was added.
  void save();

  // What was wrong with the file or the folder: at most one line.
  const std::string& warning() const { return warning_; }
  const std::filesystem::path& path() const { return path_; }

  // The cache of the compilation that this thread is in, or null.
  static PackedCache* current();
  // Makes `cache` (may be null) the current one.
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
  std::shared_ptr<const Storage> program_file_;  // kept, so that its addresses are nobody else's
  PackedBlock file_;
  bool is_refused_ = false;               // the folder is
  std::map<std::string, Entry> entries_;  // of file_
  std::map<std::string, PackedBlock> added_;
};

}  // namespace octet
