#include "core/pt2/archive.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include <c10/util/Exception.h>
#include <caffe2/serialize/crc_alt.h>  // defines functions: for this file alone
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "core/base/output_file.h"

// A function of miniz, which is part of LibTorch without its header. Returns the number of bytes
// written, or -1.
extern "C" size_t tinfl_decompress_mem_to_mem(void* to, size_t to_size, const void* from,
                                              size_t from_size, int flags);

namespace octet {
namespace {

// The directory is found like in miniz, LibTorch's reader: by the last end-of-directory record in
// the file.

constexpr uint64_t kMostTimes = 200, kLeastLimit = uint64_t{1} << 20;
constexpr size_t kEndSize = 22, kLocatorSize = 20, kEnd64Size = 56, kEntrySize = 46;
constexpr uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                   kEntryMark = 0x02014b50, kHeaderMark = 0x04034b50;
constexpr size_t kLocalHeaderSize = 30;  // size of a zip entry's header before its name

using Bytes = std::span<const std::byte>;

// The little-endian number at `at`, which must be inside.
template <typename Number>
Number number_at(Bytes bytes, size_t at) {
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

bool is_at(Bytes bytes, size_t at, size_t size, uint32_t mark) {
  return at <= bytes.size() && bytes.size() - at >= size && number_at<uint32_t>(bytes, at) == mark;
}

std::optional<size_t> find_end(Bytes zip) {
  if (zip.size() < kEndSize) return std::nullopt;
  const size_t furthest = zip.size() - std::min(zip.size(), kEndSize + 0xffff);
  for (size_t at = zip.size() - kEndSize + 1; at-- > furthest;)
    if (is_at(zip, at, kEndSize, kEndMark)) return at;
  return std::nullopt;
}

// Where the first entry of the directory is.
std::optional<size_t> find_directory(Bytes zip) {
  const std::optional<size_t> end = find_end(zip);
  if (!end) return std::nullopt;
  if (*end >= kLocatorSize && is_at(zip, *end - kLocatorSize, kLocatorSize, kLocatorMark)) {
    const uint64_t end64 = number_at<uint64_t>(zip, *end - kLocatorSize + 8);
    if (is_at(zip, end64, kEnd64Size, kEnd64Mark)) return number_at<uint64_t>(zip, end64 + 48);
  }
  return number_at<uint32_t>(zip, *end + 16);
}

// Where a member is, according to its entry in the directory.
struct Place {
  uint64_t size = 0, packed = 0, header = 0;
};

// Numbers beyond 32 bits are in the extra fields, in this order.
Place place_of(Bytes zip, size_t entry) {
  constexpr uint32_t kIsBehind = 0xffffffff;
  constexpr uint16_t kLargeNumbers = 1;
  Place place{number_at<uint32_t>(zip, entry + 24), number_at<uint32_t>(zip, entry + 20),
              number_at<uint32_t>(zip, entry + 42)};
  size_t at = entry + kEntrySize + number_at<uint16_t>(zip, entry + 28);
  const size_t end = std::min(zip.size(), at + number_at<uint16_t>(zip, entry + 30));
  while (at < end && end - at >= 4) {
    const size_t next = at + 4 + number_at<uint16_t>(zip, at + 2);
    if (number_at<uint16_t>(zip, at) == kLargeNumbers) {
      at += 4;
      for (uint64_t* number : {&place.size, &place.packed, &place.header}) {
        if (*number != kIsBehind || std::min(next, end) < at + 8) continue;
        *number = number_at<uint64_t>(zip, at);
        at += 8;
      }
    }
    at = next;
  }
  return place;
}

// The entries of the directory.
std::vector<size_t> entries_of(Bytes zip) {
  std::vector<size_t> entries;
  for (size_t at = find_directory(zip).value_or(zip.size()); is_at(zip, at, kEntrySize, kEntryMark);
       at += kEntrySize + number_at<uint16_t>(zip, at + 28) + number_at<uint16_t>(zip, at + 30) +
             number_at<uint16_t>(zip, at + 32))
    entries.push_back(at);
  return entries;
}

// "" for one that reaches beyond the file.
std::string_view name_of_member(Bytes zip, size_t entry) {
  const size_t length = number_at<uint16_t>(zip, entry + 28);
  if (zip.size() - entry - kEntrySize < length) return "";
  return {reinterpret_cast<const char*>(zip.data()) + entry + kEntrySize, length};
}

uint64_t unpacked_size(Bytes zip) {
  uint64_t total = 0;
  for (size_t entry : entries_of(zip))
    if (__builtin_add_overflow(total, place_of(zip, entry).size, &total))
      return std::numeric_limits<uint64_t>::max();
  return total;
}

}  // namespace

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
void refuse_first_format(Bytes zip, const std::string& stage, const std::string& path) {
  for (size_t entry : entries_of(zip))
    if (name_of_member(zip, entry) == "serialized_exported_program.json")
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
    if (header > mapping->size || mapping->size - header < kLocalHeaderSize) return nullptr;
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
  const Bytes zip(state_->mapping->data, state_->mapping->size);
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

uint32_t crc32(const void* bytes, size_t size) { return ::crc32_fast(bytes, size); }

void check_unpacked_size(Bytes zip, const std::string& stage, const std::string& path) {
  const uint64_t size = unpacked_size(zip),
                 most = std::max<uint64_t>(kLeastLimit, kMostTimes * zip.size());
  if (size > most)
    throw Error(stage, path,
                fmt::format("its members take {} bytes when they are unpacked, want at most {}, {} "
                            "times the file; save it again with torch, which does not compress",
                            size, most, kMostTimes));
}

std::vector<ZipMember> zip_members(Bytes zip, const std::string& stage, const std::string& path) {
  constexpr uint64_t kMostRatio = 1032;  // of DEFLATE
  std::vector<ZipMember> members;
  for (size_t entry : entries_of(zip)) {
    const Place place = place_of(zip, entry);
    uint64_t begin = place.header;
    const bool has_header = is_at(zip, begin, kLocalHeaderSize, kHeaderMark);
    if (has_header)
      begin += kLocalHeaderSize + number_at<uint16_t>(zip, begin + 26) +
               number_at<uint16_t>(zip, begin + 28);
    if (!has_header || begin > zip.size() || zip.size() - begin < place.packed ||
        place.size / kMostRatio > place.packed + 1)
      throw Error(stage, path,
                  "has a member that does not fit its directory; the file is "
                  "damaged");
    members.push_back({.name = std::string(name_of_member(zip, entry)),
                       .packed = zip.subspan(begin, place.packed),
                       .size = place.size,
                       .checksum = number_at<uint32_t>(zip, entry + 16),
                       .method = number_at<uint16_t>(zip, entry + 10)});
  }
  if (members.empty())
    throw Error(stage, path, "has no directory of its members; the file is damaged");
  return members;
}

bool unpack(const ZipMember& member, std::string& to, const std::string& stage,
            const std::string& path) {
  constexpr uint16_t kStored = 0, kDeflated = 8;
  const auto damaged = [&](const char* how) {
    return Error(stage, path,
                 fmt::format("its member \"{}\" is damaged: {}; copy or write the file again",
                             member.name, how));
  };
  if (member.method != kStored && member.method != kDeflated)
    throw Error(stage, path,
                fmt::format("its member \"{}\" is packed with method {}, want 0 (stored) or 8 "
                            "(deflated); write it again",
                            member.name, member.method));
  const void* bytes = member.packed.data();
  if (member.method == kDeflated) {
    to.resize(member.size);
    if (tinfl_decompress_mem_to_mem(to.data(), to.size(), bytes, member.packed.size(), 0) !=
        member.size)
      throw damaged("it cannot be unpacked");
    bytes = to.data();
  } else if (member.size != member.packed.size()) {
    throw damaged("its sizes differ");
  }
  if (crc32(bytes, member.size) != member.checksum) throw damaged("its checksum does not match");
  return member.method == kDeflated;
}

}  // namespace octet
