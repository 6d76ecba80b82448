#include "lowering/program/packed_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/output_file.h"
#include "lowering/program/artifact_format.h"
#include "lowering/program/json.h"
#include "lowering/program/program_json.h"

namespace octet {
namespace {

namespace fs = std::filesystem;
using artifact::aligned;
using artifact::checksum_digits;
using artifact::kAlignment;

constexpr int kCacheVersion = 1;
// The file starts with the length and the checksum of the description.
constexpr size_t kFront = 2 * sizeof(uint64_t);

thread_local PackedCache* current_cache = nullptr;

uint64_t checksum_of(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.value();
}

std::string digits_of(std::span<const std::byte> bytes) {
  return checksum_digits(checksum_of(bytes));
}

// Why another user could write the file; null if only this user or root can. Its writer decides
// what programs compute.
const char* find_other_writers(int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) return std::strerror(errno);
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return "belongs to another user";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "may be written by others";
  return nullptr;
}

// Null if the bytes are not a description. begin: the position of the blocks.
Json parse_description(const PackedBlock& file, size_t& begin) {
  if (file.size < kFront) return {};
  uint64_t words[2];
  std::memcpy(words, file.bytes.get(), kFront);
  if (words[0] > file.size - kFront) return {};
  begin = kFront + static_cast<size_t>(words[0]);
  const std::span<const std::byte> text(file.bytes.get() + kFront, static_cast<size_t>(words[0]));
  if (checksum_of(text) != words[1]) return {};
  const std::string_view json(reinterpret_cast<const char*>(text.data()), text.size());
  return nests_deeper(json, kDeepestJson) ? Json() : Json::parse(json, nullptr, false);
}

}  // namespace

PackedCache::PackedCache(std::filesystem::path folder, std::string program, std::string made_for,
                         std::shared_ptr<const Storage> file)
    : folder_(std::move(folder)),
      program_(std::move(program)),
      made_for_(std::move(made_for)),
      program_file_(std::move(file)) {
  path_ = folder_ /
          fmt::format("{}-{}.packed", program_, digits_of(std::as_bytes(std::span(made_for_))));
  open();
}

// Empty if there is no such file, or if others may write it.
PackedBlock PackedCache::map_own_file() {
  const int folder = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return {};
  const char* fault = find_other_writers(folder);
  is_refused_ = fault != nullptr;
  if (is_refused_ && warning_.empty())
    warning_ = fmt::format(
        "packed weights {}: the folder {}, want one that only this user may write; programs are "
        "packed again at each start",
        folder_.string(), fault);
  const int descriptor = is_refused_ ? -1
                                     : ::openat(folder, path_.filename().c_str(),
                                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  ::close(folder);
  if (descriptor < 0) return {};
  if ((fault = find_other_writers(descriptor)) != nullptr) {
    warn(fmt::format("{}; it is rewritten", fault));
    ::close(descriptor);
    return {};
  }
  const MappedFile file = map_file(descriptor, FileAccess::kReadOnly);
  return {std::shared_ptr<std::byte>(file.owner, file.data), file.size};
}

void PackedCache::open() {
  PackedBlock file = map_own_file();
  if (file.bytes == nullptr) return;
  size_t begin = 0;
  const Json description = parse_description(file, begin);
  try {
    if (description.is_null()) return warn("is damaged or cut off; it is rewritten");
    if (description.at("version") != kCacheVersion || description.at("program") != program_ ||
        description.at("made_for") != made_for_)
      return warn(fmt::format("was made for {}, want {}; it is rewritten",
                              description.at("made_for").dump(), made_for_));
    for (const auto& [key, entry] : description.at("entries").items()) {
      const size_t offset = entry.at("offset").get<size_t>(), size = entry.at("size").get<size_t>(),
                   there = file.size - begin;
      if (offset % kAlignment != 0 || offset > there || size > there - offset)
        throw Json::other_error::create(0, "a block beyond the end", nullptr);
      entries_[key] = {begin + offset, size, entry.at("checksum").get<std::string>()};
    }
  } catch (const Json::exception&) {
    entries_.clear();
    return warn("is damaged or cut off; it is rewritten");
  }
  file_ = std::move(file);
}

void PackedCache::warn(const std::string& what) {
  if (warning_.empty())
    warning_ = fmt::format("packed weights {}: the file {}", path_.string(), what);
}

std::string PackedCache::name_of(std::span<const std::byte> constant) const {
  const std::less<const std::byte*> is_before;
  const bool is_in_file = program_file_ != nullptr &&
                          !is_before(constant.data(), program_file_->data) &&
                          is_before(constant.data(), program_file_->data + program_file_->size);
  return is_in_file ? fmt::format("at {}", constant.data() - program_file_->data)
                    : digits_of(constant);
}

std::optional<PackedBlock> PackedCache::find(const std::string& key, const Fits& fits) {
  const std::map<std::string, Entry>::const_iterator found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  PackedBlock block{std::shared_ptr<std::byte>(file_.bytes, file_.bytes.get() + entry.offset),
                    entry.size};
  if (digits_of({block.bytes.get(), block.size}) == entry.checksum && fits(block)) return block;
  entries_.erase(found);
  warn("is damaged; the damaged part is rewritten");
  return std::nullopt;
}

void PackedCache::add(const std::string& key, PackedBlock block) { added_[key] = std::move(block); }

void PackedCache::save() {
  if (added_.empty() || is_refused_) return;
  std::map<std::string, PackedBlock> blocks = std::move(added_);
  added_.clear();
  for (const auto& [key, entry] : entries_)
    blocks.try_emplace(
        key, PackedBlock{std::shared_ptr<std::byte>(file_.bytes, file_.bytes.get() + entry.offset),
                         entry.size});
  Json entries = Json::object();
  size_t end = 0;
  for (const auto& [key, block] : blocks) {
    entries[key] = {{"offset", end},
                    {"size", block.size},
                    {"checksum", digits_of({block.bytes.get(), block.size})}};
    end = aligned(end + block.size);
  }
  const Json description = {{"version", kCacheVersion},
                            {"program", program_},
                            {"made_for", made_for_},
                            {"entries", std::move(entries)}};
  std::string text = description.dump();
  text.resize(aligned(kFront + text.size()) - kFront, ' ');
  const uint64_t front[2] = {text.size(), checksum_of(std::as_bytes(std::span(text)))};

  std::error_code failure;
  std::filesystem::create_directories(folder_.parent_path(), failure);
  ::mkdir(folder_.c_str(), 0700);  // an existing folder is kept unchanged
  try {
    OutputFile file(path_, "packed weights");
    file.write(std::as_bytes(std::span(front)));
    file.write(text);
    const std::byte zeros[kAlignment] = {};
    for (const auto& [key, block] : blocks) {
      file.write(std::span<const std::byte>(block.bytes.get(), block.size));
      file.write(std::span(zeros, aligned(block.size) - block.size));
    }
    file.commit();
    std::filesystem::permissions(path_, fs::perms::group_write | fs::perms::others_write,
                                 fs::perm_options::remove, failure);
    entries_.clear();
    open();
  } catch (const Error& error) {
    if (warning_.empty())
      warning_ = fmt::format("{}; programs are packed again at each start", error.what());
  }
}

PackedCache* PackedCache::current() { return current_cache; }

PackedCache::Use::Use(PackedCache* cache) : before_(std::exchange(current_cache, cache)) {}
PackedCache::Use::~Use() { current_cache = before_; }

}  // namespace octet
