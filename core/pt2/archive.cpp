#include "core/pt2/archive.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>

#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/output_file.h"
#include "core/pt2/zip.h"

namespace octet {

// A whole file, copy-on-write, or bytes in memory.
struct ArchiveMapping {
  std::byte* data = nullptr;
  size_t size = 0;
  std::shared_ptr<void> owner;
};

namespace {

using caffe2::serialize::PyTorchStreamReader;
using caffe2::serialize::PyTorchStreamWriter;

constexpr uint64_t kContainerVersion = 6;  // version of torch's archives, in .data/version

std::shared_ptr<ArchiveMapping> map_archive(const std::filesystem::path& path,
                                            const std::string& stage) {
  const MappedFile file = map_file(path, FileAccess::kCopyOnWrite);
  if (file.fault == MappedFile::Fault::kNotOpened)
    throw Error(stage, path.string(), fmt::format("cannot be read: {}", std::strerror(file.code)));
  if (file.fault == MappedFile::Fault::kNoFile || file.fault == MappedFile::Fault::kEmpty)
    throw Error(stage, path.string(),
                file.fault == MappedFile::Fault::kEmpty
                    ? "is empty, want a zip archive written by PyTorch"
                    : "is not a regular file, want a zip archive written by PyTorch");
  if (file.fault == MappedFile::Fault::kNotMapped)
    throw Error(stage, path.string(),
                fmt::format("cannot be mapped: {}", std::strerror(file.code)));
  return std::make_shared<ArchiveMapping>(ArchiveMapping{file.data, file.size, file.owner});
}

// torch.export.save first wrote a zip without a folder.
void refuse_first_format(std::span<const std::byte> zip, const std::string& stage,
                         const std::string& path) {
  if (has_member(zip, "serialized_exported_program.json"))
    throw Error(stage, path,
                "is a program of torch 2.7 or older, want one of torch 2.9 to 2.15; export the "
                "model again");
}

// Reads beyond the end give zeros and a short count, which the zip reader reports as damage.
class MappedAdapter : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MappedAdapter(std::shared_ptr<ArchiveMapping> mapping) : mapping_(std::move(mapping)) {}
  size_t size() const override { return mapping_->size; }
  size_t read(uint64_t position, void* buffer, size_t count, const char* /*what*/) const override {
    const size_t there =
        position >= mapping_->size ? 0 : std::min<size_t>(count, mapping_->size - position);
    std::memcpy(buffer, mapping_->data + (there == 0 ? 0 : position), there);
    std::memset(static_cast<char*>(buffer) + there, 0, count - there);
    return there;
  }

 private:
  std::shared_ptr<ArchiveMapping> mapping_;
};

}  // namespace

std::string one_line(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  constexpr std::string_view kPosition = "[enforce fail at ";
  if (text.starts_with(kPosition)) {
    const size_t end = text.find("] . ");
    if (end != std::string_view::npos) text.remove_prefix(end + 4);
  }
  return std::string(text);
}

// ---- reading

struct ArchiveReader::State {
  std::string path;
  std::string stage;
  std::shared_ptr<ArchiveMapping> mapping;
  std::unique_ptr<PyTorchStreamReader> zip;
  std::vector<std::string> names;
  std::set<std::string, std::less<>> set;
  std::map<std::string, std::shared_ptr<Storage>> mapped;

  // Runs a call of LibTorch's reader; its exceptions become Errors about the record `name`.
  template <typename Function>
  auto guarded(const std::string& name, const Function& function) const {
    if (!set.contains(name))
      throw Error(
          stage, path,
          fmt::format("there is no record \"{}\" in the archive; the file is damaged", name));
    try {
      return function();
    } catch (const c10::Error& error) {
      throw Error(stage, path,
                  fmt::format("record \"{}\" is damaged: {}", name,
                              one_line(error.what_without_backtrace())));
    }
  }

  // The bytes in the mapping; null when the record is compressed, unaligned or incomplete.
  std::byte* find_in_place(const std::string& name, size_t size, size_t alignment) const {
    const size_t header = zip->getRecordHeaderOffset(name);
    const size_t offset = zip->getRecordOffset(name);
    if (header > mapping->size || mapping->size - header < kZipHeaderSize) return nullptr;
    if (std::memcmp(mapping->data + header, "PK\3\4", 4) != 0) return nullptr;
    uint16_t method = 0;  // 0: stored
    std::memcpy(&method, mapping->data + header + 8, sizeof(method));
    if (method != 0 || offset > mapping->size || mapping->size - offset < size) return nullptr;
    return reinterpret_cast<uintptr_t>(mapping->data + offset) % alignment == 0
               ? mapping->data + offset
               : nullptr;
  }

  // The CRC-32 stored for the record at `data`: in its header or, if not there, after the record.
  // Nothing without one.
  std::optional<uint32_t> find_checksum(const std::string& name, const std::byte* data,
                                        size_t size) const {
    constexpr uint16_t kIsBehind = 8;
    const std::byte* at = mapping->data + zip->getRecordHeaderOffset(name) + 14;
    uint16_t flags = 0;
    std::memcpy(&flags, at - 8, sizeof(flags));
    if ((flags & kIsBehind) != 0) {
      at = data + size;
      if (static_cast<size_t>(mapping->data + mapping->size - at) < 8 ||
          std::memcmp(at, "PK\7\b", 4) != 0)
        return std::nullopt;
      at += 4;
    }
    uint32_t checksum = 0;
    std::memcpy(&checksum, at, sizeof(checksum));
    // torch writes 0 when told not to compute it.
    return checksum == 0 ? std::nullopt : std::optional(checksum);
  }
};

ArchiveReader::ArchiveReader(const std::filesystem::path& path, std::string stage)
    : state_(std::make_unique<State>()) {
  state_->path = path.string();
  state_->stage = std::move(stage);
  state_->mapping = map_archive(path, state_->stage);
  open();
}

ArchiveReader::ArchiveReader(std::string bytes, std::string name, std::string stage)
    : state_(std::make_unique<State>()) {
  state_->path = std::move(name);
  state_->stage = std::move(stage);
  auto owner = std::make_shared<std::string>(std::move(bytes));
  auto* data = reinterpret_cast<std::byte*>(owner->data());
  const size_t size = owner->size();
  state_->mapping = std::make_shared<ArchiveMapping>(ArchiveMapping{data, size, std::move(owner)});
  open();
}

void ArchiveReader::open() {
  if (state_->mapping->size < 4 || std::memcmp(state_->mapping->data, "PK\3\4", 4) != 0)
    throw Error(state_->stage, state_->path,
                "is not an archive written by PyTorch: it does not begin like a zip file; give "
                "what torch.save "
                "or torch.export.save wrote");
  const std::span<const std::byte> zip(state_->mapping->data, state_->mapping->size);
  check_unpacked_size(zip, state_->stage, state_->path);
  refuse_first_format(zip, state_->stage, state_->path);
  try {
    state_->zip =
        std::make_unique<PyTorchStreamReader>(std::make_shared<MappedAdapter>(state_->mapping));
    state_->names = state_->zip->getAllRecords();
  } catch (const c10::Error& error) {
    throw Error(state_->stage, state_->path,
                fmt::format("is not an archive written by PyTorch, or is damaged: {}",
                            one_line(error.what_without_backtrace())));
  }
  state_->set = {state_->names.begin(), state_->names.end()};
}

ArchiveReader::~ArchiveReader() = default;

const std::vector<std::string>& ArchiveReader::names() const { return state_->names; }
bool ArchiveReader::has(std::string_view name) const { return state_->set.contains(name); }

std::string ArchiveReader::read(const std::string& name) const {
  return state_->guarded(name, [&] {
    const std::tuple<at::DataPtr, size_t> record = state_->zip->getRecord(name);
    return std::string(static_cast<const char*>(std::get<0>(record).get()), std::get<1>(record));
  });
}

std::shared_ptr<Storage> ArchiveReader::map(const std::string& name, size_t alignment) {
  std::shared_ptr<Storage>& storage = state_->mapped[name];
  if (storage != nullptr) return storage;
  storage = state_->guarded(name, [&] {
    auto result = std::make_shared<Storage>();
    result->size = state_->zip->getRecordSize(name);
    if (std::byte* bytes = state_->find_in_place(name, result->size, alignment)) {
      const std::optional<uint32_t> checksum = state_->find_checksum(name, bytes, result->size);
      // Checks weights only: data may be larger than memory.
      if (state_->stage == "pt2" && checksum && crc32(bytes, result->size) != *checksum)
        throw Error(state_->stage, state_->path,
                    fmt::format("record \"{}\" is damaged: its checksum does not match; copy "
                                "or export the file again",
                                name));
      result->data = bytes;
      result->owner = state_->mapping;
      return result;
    }
    std::tuple<at::DataPtr, size_t> record = state_->zip->getRecord(name);
    auto owner = std::make_shared<at::DataPtr>(std::move(std::get<0>(record)));
    result->data = static_cast<std::byte*>(owner->get());
    result->size = std::get<1>(record);
    result->owner = owner;
    return result;
  });
  return storage;
}

// ---- writing

struct ArchiveWriter::State {
  std::filesystem::path path;
  std::string stage;
  OutputFile file;
  std::unique_ptr<PyTorchStreamWriter> zip;

  State(const std::filesystem::path& given, const std::string& name)
      : path(given), stage(name), file(given, name) {}

  template <typename Function>
  void guarded(const Function& function) const {
    try {
      function();
    } catch (const c10::Error& error) {
      throw Error(stage, path.string(),
                  fmt::format("cannot be written: {}", one_line(error.what_without_backtrace())));
    }
  }
};

ArchiveWriter::ArchiveWriter(const std::filesystem::path& path, std::string stage)
    : state_(std::make_unique<State>(path, stage)) {
  // Reports every write as done, because the zip writer's destructor would throw otherwise.
  // commit() checks the file instead.
  OutputFile& file = state_->file;
  state_->guarded([&] {
    state_->zip = std::make_unique<PyTorchStreamWriter>([&file](const void* bytes, size_t count) {
      file.write(std::string_view(static_cast<const char*>(bytes), count));
      return count;
    });
    state_->zip->setMinVersion(kContainerVersion);
  });
}

ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::write(const std::string& name, std::string_view bytes) {
  state_->guarded([&] { state_->zip->writeRecord(name, bytes.data(), bytes.size()); });
}

bool ArchiveWriter::has(const std::string& name) const {
  return state_->zip->getAllWrittenRecords().contains(name);
}

void ArchiveWriter::commit() {
  state_->guarded([&] { state_->zip->writeEndOfFile(); });
  state_->file.commit();
}

}  // namespace octet
