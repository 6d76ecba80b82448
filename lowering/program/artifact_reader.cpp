// Reads .octet files, which may be hostile: checks everything before use, and allocates nothing
// that the size of the file does not bound.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "lowering/program/artifact.h"
#include "lowering/program/artifact_format.h"
#include "lowering/program/filter_order.h"
#include "lowering/program/json.h"
#include "lowering/program/program_json.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

using namespace artifact;

// Maps the whole file copy-on-write.
std::shared_ptr<Storage> map_artifact(const std::string& name) {
  const MappedFile file = map_file(name, FileAccess::kCopyOnWrite);
  if (file.fault == MappedFile::Fault::kNotOpened)
    throw Error("artifact", name,
                fmt::format("cannot be opened ({}); check the path", std::strerror(file.code)));
  if (file.fault == MappedFile::Fault::kNoFile)
    throw Error("artifact", name, "is not a file; give what `octet lower` wrote");
  if (file.fault == MappedFile::Fault::kNotMapped)
    throw Error("artifact", name, fmt::format("cannot be mapped ({})", std::strerror(file.code)));
  if (file.size < 8)
    throw Error("artifact", name,
                fmt::format("has {} bytes, want at least 8; the file is cut off", file.size));
  auto storage = std::make_shared<Storage>();
  storage->data = file.data;
  storage->size = file.size;
  storage->owner = file.owner;
  return storage;
}

// Uses bytes in memory; copies them only if they are not aligned like a mapped file.
std::shared_ptr<Storage> memory_file(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < 8)
    throw Error("artifact", name,
                fmt::format("has {} bytes, want at least 8; the file is cut off", bytes.size()));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment != 0)
    return Tensor::from<std::byte>(DType::kUInt8, {static_cast<int64_t>(bytes.size())}, bytes)
        .storage();
  auto storage = std::make_shared<Storage>();
  storage->data = const_cast<std::byte*>(bytes.data());  // constants are only read
  storage->size = bytes.size();
  return storage;
}

Json parse_header(const std::string& name, const Storage& file, size_t& data_begin) {
  if (std::memcmp(file.data, "PK\3\4", 4) == 0)
    throw Error("artifact", name,
                "is a zip, as torch.export.save writes; lower it first: octet lower MODEL.pt2 "
                "--backend onednn --output MODEL.octet");
  uint64_t length = 0;
  std::memcpy(&length, file.data, sizeof(length));
  if (length > kLargestHeader)
    throw Error("artifact", name,
                "does not start like an .octet; give what `octet lower` wrote, or copy it again");
  if (length > file.size - 8)
    throw Error("artifact", name,
                fmt::format("its header has {} bytes, got {} of them; the file is cut off, copy it "
                            "again",
                            length, file.size - 8));
  data_begin = 8 + static_cast<size_t>(length);
  const char* text = reinterpret_cast<const char*>(file.data) + 8;
  Json header = nests_deeper({text, length}, kDeepestJson)
                    ? Json()
                    : Json::parse(text, text + length, nullptr, false);
  if (!header.is_object())
    throw Error("artifact", name, "its header is not JSON; the file is damaged or not an .octet");
  return header;
}

std::string metadata_text(const std::string& name, const Json& header, const char* key) {
  const auto metadata = header.find("__metadata__");
  if (metadata != header.end() && metadata->is_object()) {
    const auto found = metadata->find(key);
    if (found != metadata->end() && found->is_string()) return found->get<std::string>();
  }
  throw Error("artifact", name,
              fmt::format("its metadata lacks \"{}\"; give what `octet lower` wrote", key));
}

// The file being read: its mapped bytes and its description.
struct OpenArtifact {
  const std::string& name;
  const std::shared_ptr<Storage>& file;
  const Json& header;
  size_t data_begin;
  std::map<uint64_t, uint64_t>& taken;  // begin -> end of the ranges read so far
};

[[noreturn]] void fail(const OpenArtifact& source, const std::string& constant,
                       const std::string& what) {
  throw Error("artifact", source.name,
              fmt::format("constant {}: {}; the file is damaged", constant, what));
}

// Lets each byte belong to one entry only, so that the size of the file bounds what is made of it.
void take_range(const OpenArtifact& source, const std::string& key, uint64_t begin, uint64_t end) {
  if (begin == end) return;
  const auto after = source.taken.lower_bound(begin);
  const bool is_free = (after == source.taken.end() || end <= after->first) &&
                       (after == source.taken.begin() || std::prev(after)->second <= begin);
  if (!is_free)
    fail(source, key, fmt::format("lies at {}..{}, where it overlaps another one", begin, end));
  source.taken.emplace(begin, end);
}

// The bytes of one entry, after checking its dtype and shape.
Tensor entry_data(const OpenArtifact& source, const std::string& key, DType dtype,
                  const std::vector<int64_t>& shape) {
  const auto entry = source.header.find(key);
  if (entry == source.header.end() || !entry->is_object()) fail(source, key, "is missing");
  const auto given_dtype = entry->find("dtype");
  const auto given_shape = entry->find("shape");
  const auto offsets = entry->find("data_offsets");
  if (given_dtype == entry->end() || given_shape == entry->end() || offsets == entry->end())
    fail(source, key, "lacks dtype, shape or data_offsets");
  const char* want_dtype = find_dtype_name(dtype);
  if (want_dtype == nullptr)
    fail(source, key, fmt::format("is {}, which the file format does not have", name_of(dtype)));
  // Not a comparison with want_dtype itself, which would allocate and must not throw.
  if (*given_dtype != Json(want_dtype) || *given_shape != Json(shape))
    fail(source, key, "dtype or shape differ from the program's");
  if (!offsets->is_array() || offsets->size() != 2 || !offsets->at(0).is_number_unsigned() ||
      !offsets->at(1).is_number_unsigned())
    fail(source, key, "data_offsets are not two positive integers");
  const uint64_t begin = offsets->at(0).get<uint64_t>();
  const uint64_t end = offsets->at(1).get<uint64_t>();
  const size_t available = source.file->size - source.data_begin;
  const size_t bytes = static_cast<size_t>(product(shape)) * size_of(dtype);
  if (begin > end || end > available)
    fail(source, key, fmt::format("lies at {}..{}, got {} bytes of data", begin, end, available));
  if (end - begin != bytes)
    fail(source, key, fmt::format("has {} bytes, want {}", end - begin, bytes));
  if (reinterpret_cast<uintptr_t>(source.file->data + source.data_begin + begin) % size_of(dtype) !=
      0)
    fail(source, key, fmt::format("starts at {}, want a multiple of its element size", begin));
  take_range(source, key, begin, end);
  auto storage = std::make_shared<Storage>();
  storage->data = source.file->data + source.data_begin + begin;
  storage->size = bytes;
  storage->owner = std::get_deleter<Unmap>(source.file->owner) == nullptr
                       ? std::shared_ptr<void>(source.file)
                       : source.file->owner;
  return Tensor(std::move(storage), dtype, shape, contiguous_strides(shape), 0);
}

// The number of blocks along each dimension of the constant: the shape of its scales in the file.
std::vector<int64_t> stored_blocks(const OpenArtifact& source, const ProgramTensor& tensor) {
  const std::string key = tensor.name + kScale;
  const Json& entry = source.header.at(key);
  const auto shape = entry.find("shape");
  const bool has_rank = entry.is_object() && shape != entry.end() && shape->is_array() &&
                        shape->size() == tensor.shape.size();
  if (!has_rank)
    fail(source, key, fmt::format("has no shape of {} dimensions", tensor.shape.size()));
  std::vector<int64_t> blocks;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const Json& size = shape->at(d);
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > static_cast<uint64_t>(std::max<int64_t>(tensor.shape[d], 1)))
      fail(source, key,
           fmt::format("cuts dimension {} of size {} into {} blocks", d, tensor.shape[d],
                       size.dump()));
    blocks.push_back(size.get<int64_t>());
  }
  return blocks;
}

// An entry of the dtype that the file names.
Tensor typed_entry(const OpenArtifact& source, const std::string& key,
                   const std::vector<int64_t>& shape) {
  const auto entry = source.header.find(key);
  const bool has_dtype = entry != source.header.end() && entry->is_object() &&
                         entry->contains("dtype") && entry->at("dtype").is_string();
  const std::optional<DType> dtype =
      has_dtype ? find_dtype_by_name(entry->at("dtype").get_ref<const std::string&>())
                : std::nullopt;
  if (!dtype) fail(source, key, "is missing or has an unknown dtype");
  return entry_data(source, key, *dtype, shape);
}

StoredConstant read_stored(const OpenArtifact& source, const ProgramTensor& tensor) {
  StoredConstant stored;
  if (source.header.contains(tensor.name + kScale)) {
    const std::vector<int64_t> blocks = stored_blocks(source, tensor);
    stored.scale = typed_entry(source, tensor.name + kScale, blocks);
    if (source.header.contains(tensor.name + kZeroPoint))
      stored.zero_point = typed_entry(source, tensor.name + kZeroPoint, blocks);
  }
  for (DType dtype : {DType::kInt8, DType::kUInt8})
    for (int bits = kFewestBits; bits <= kMostBits; ++bits)
      if (const std::string key = tensor.name + packed_suffix(dtype, bits);
          source.header.contains(key)) {
        if (stored.packed.defined() || source.header.contains(tensor.name + kValues))
          fail(source, key, "is one of two forms of the constant");
        stored.packed =
            entry_data(source, key, DType::kUInt8, {packed_size(product(tensor.shape), bits)});
        stored.packed_bits = bits;
        const int64_t used = product(tensor.shape) % 8 * bits % 8;  // bits of the last byte
        if (used != 0 && stored.packed.data<uint8_t>()[stored.packed.numel() - 1] >> used != 0)
          fail(source, key, "has bits after its last value");
        stored.values = Tensor::without_data(dtype, tensor.shape);
      }
  if (!stored.packed.defined())
    stored.values = typed_entry(source, tensor.name + kValues, tensor.shape);
  const std::string fault = find_fault(stored);
  if (!fault.empty()) fail(source, tensor.name, fault);
  if (!has_finite_scales(stored))
    fail(source, tensor.name, "has a scale or zero point that is not finite");
  return stored;
}

void read_constant(const OpenArtifact& source, ProgramTensor& tensor) {
  if (source.header.contains(tensor.name + kChannelsLast)) {
    if (!can_be_channels_last(tensor.shape))
      fail(source, tensor.name,
           fmt::format("is channels-last, but has {} dimensions", tensor.shape.size()));
    tensor.data = from_channels_last(entry_data(source, tensor.name + kChannelsLast, tensor.dtype,
                                                channels_last_shape(tensor.shape)));
    return;
  }
  const bool is_stored =
      source.header.contains(tensor.name + kScale) || source.header.contains(tensor.name + kValues);
  if (source.header.contains(tensor.name) || !is_stored) {
    tensor.data = entry_data(source, tensor.name, tensor.dtype, tensor.shape);
    return;
  }
  if (tensor.dtype != DType::kFloat32)
    fail(source, tensor.name,
         fmt::format("is stored in another form, but is {}", name_of(tensor.dtype)));
  tensor.stored = read_stored(source, tensor);
}

// Reads a scale and, unless all are 0, a zero point for each slice along the axis.
void read_slice_parameters(const OpenArtifact& source, ProgramTensor& tensor) {
  TensorQParams& qparams = *tensor.qparams;
  if (qparams.axis < 0 || static_cast<size_t>(qparams.axis) >= tensor.shape.size())
    fail(source, tensor.name,
         fmt::format("has its scales along axis {} of {}", qparams.axis, tensor.shape.size()));
  const std::vector<int64_t> shape{tensor.shape[static_cast<size_t>(qparams.axis)]};
  const Tensor scale = entry_data(source, tensor.name + kScale, DType::kFloat32, shape);
  qparams.scale.assign(scale.data<float>(), scale.data<float>() + scale.numel());
  qparams.zero_point.assign(qparams.scale.size(), 0);
  if (!source.header.contains(tensor.name + kZeroPoint)) return;
  const Tensor zero_point = entry_data(source, tensor.name + kZeroPoint, DType::kInt32, shape);
  qparams.zero_point.assign(zero_point.data<int32_t>(),
                            zero_point.data<int32_t>() + zero_point.numel());
  if (const std::optional<int32_t> zero = find_misplaced_zero_point(tensor))
    fail(source, tensor.name,
         fmt::format("has zero point {}, which does not fit {}", *zero, name_of(tensor.dtype)));
}

// Reads the tensors whose names in the file begin with `prefix`.
void read_tensors(const OpenArtifact& source, Program& program, const std::string& prefix) {
  for (ProgramTensor& tensor : program.tensors) {
    const std::string name = tensor.name;
    tensor.name = prefix + name;
    if (tensor.is_constant()) read_constant(source, tensor);
    if (tensor.qparams && tensor.qparams->scale.empty()) read_slice_parameters(source, tensor);
    tensor.name = name;
  }
  for (size_t i = 0; i < program.bodies.size(); ++i)
    read_tensors(source, program.bodies[i], prefix + body_prefix(i));
}

void check_version(const std::string& name, const std::string& version) {
  for (int known = kOldestVersion; known <= kVersion; ++known)
    if (version == std::to_string(known)) return;
  throw Error(
      "artifact", name,
      fmt::format("has format version {}, want {} to {}; lower the model again with this build",
                  version, kOldestVersion, kVersion));
}

// Releases the pages of a large file while reading it, because its tables may never be read whole
// again. A small file stays in memory, as reading it twice takes longer.
void add_file(Checksum& checksum, const Storage& file, std::span<const std::byte> bytes) {
  constexpr size_t kLargeFile = size_t{32} << 20, kPart = size_t{1} << 20;
  while (!bytes.empty()) {
    const std::span<const std::byte> part = bytes.first(std::min(bytes.size(), kPart));
    fetch_pages(file, part);
    checksum.add(part);
    if (file.size > kLargeFile) release_pages(file, part);
    bytes = bytes.subspan(part.size());
  }
}

// Old files have no checksum.
void check_checksum(const std::string& name, const Storage& file, size_t data_begin,
                    const Json& metadata) {
  const auto stated = metadata.find("checksum");
  if (stated == metadata.end()) return;
  const std::optional<size_t> digits =
      find_checksum({reinterpret_cast<const char*>(file.data), data_begin});
  Checksum checksum;
  if (digits) {
    const std::string zeros = checksum_digits(0);
    checksum.add({file.data, *digits});
    checksum.add(std::as_bytes(std::span(zeros)));
    add_file(checksum, file,
             std::span<const std::byte>(file.data, file.size).subspan(*digits + kChecksumDigits));
  }
  const std::string got = checksum_digits(checksum.value());
  if (!digits || *stated != got)
    throw Error(
        "artifact", name,
        fmt::format("its bytes have checksum {}, want {}; the file is damaged, copy it again", got,
                    stated->dump()));
}

Program read_program(const std::string& name, const std::shared_ptr<Storage>& file,
                     const LoadOptions& options) {
  size_t data_begin = 0;
  const Json header = parse_header(name, *file, data_begin);
  if (metadata_text(name, header, "format") != "octet")
    throw Error("artifact", name, "holds tensors but no program; give what `octet lower` wrote");
  check_version(name, metadata_text(name, header, "version"));
  if (options.verifies_checksum) check_checksum(name, *file, data_begin, header.at("__metadata__"));
  Program program = program_from_json_text(metadata_text(name, header, "program"), name);
  const Json& metadata = header.at("__metadata__");
  if (metadata.contains("checksum") && metadata.at("checksum").is_string())
    program.checksum = metadata.at("checksum").get<std::string>();
  if (options.call_spec != nullptr && metadata.contains("call_spec"))
    *options.call_spec = metadata_text(name, header, "call_spec");
  if (options.verifies_checksum && !program.checksum.empty()) program.file = file;
  std::map<uint64_t, uint64_t> taken;
  const OpenArtifact source{name, file, header, data_begin, taken};
  read_tensors(source, program, "");
  try {
    verify(program);
  } catch (const InternalError& fault) {
    throw Error("artifact", name,
                fmt::format("the program in it contradicts itself ({}); the file is damaged",
                            fault.what()));
  }
  return program;
}

}  // namespace

Program load_program(const std::filesystem::path& path, const LoadOptions& options) {
  return read_program(path.string(), map_artifact(path.string()), options);
}

Program load_program(std::span<const std::byte> bytes, const LoadOptions& options) {
  const std::string name = "memory";
  return read_program(name, memory_file(bytes, name), options);
}

}  // namespace octet
