// The file layout of .octet; the program inside it is program_json's.
#include "lowering/artifact.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "lowering/program_json.h"
#include "lowering/stored_constant.h"

namespace octet {
namespace {

using Json = nlohmann::json;

constexpr size_t kAlignment = 64;
constexpr uint64_t kLargestHeader = 100'000'000;  // what readers of the layout take
constexpr const char* kPadding = "__padding";     // names of the filler tensors: the layout allows no holes

struct DTypeRow {
  DType dtype;
  const char* name;  // in the file
};
constexpr DTypeRow kDTypes[] = {
    {DType::kBool,         "BOOL"   },
    {DType::kUInt8,        "U8"     },
    {DType::kInt8,         "I8"     },
    {DType::kUInt16,       "U16"    },
    {DType::kInt16,        "I16"    },
    {DType::kUInt32,       "U32"    },
    {DType::kInt32,        "I32"    },
    {DType::kUInt64,       "U64"    },
    {DType::kInt64,        "I64"    },
    {DType::kFloat16,      "F16"    },
    {DType::kBFloat16,     "BF16"   },
    {DType::kFloat32,      "F32"    },
    {DType::kFloat64,      "F64"    },
    {DType::kComplex64,    "C64"    },
    {DType::kFloat8E4M3FN, "F8_E4M3"},
    {DType::kFloat8E5M2,   "F8_E5M2"},
};

const char* dtype_in_file(const std::string& name, DType dtype) {
  for (const DTypeRow& row : kDTypes)
    if (row.dtype == dtype) return row.name;
  throw Error("artifact", name, fmt::format("has dtype {}, which the file format lacks; cast the constant", name_of(dtype)));
}

// A stored constant is several tensors of the file, under its name and one of these. Four-bit values stand in bytes.
constexpr const char* kValues = ":values";
constexpr const char* kSignedNibbles = ":i4";
constexpr const char* kUnsignedNibbles = ":u4";
constexpr const char* kScale = ":scale";
constexpr const char* kZeroPoint = ":zero_point";

size_t aligned(size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// ---- writing

struct Entry {
  std::string name;
  Tensor data;
};

std::vector<Entry> entries_of(const Program& program) {
  std::vector<Entry> entries;
  for (const ProgramTensor& tensor : program.tensors) {
    if (tensor.role != ProgramTensor::Role::kConstant) continue;
    if (!tensor.stored) {
      entries.push_back({tensor.name, tensor.data});
      continue;
    }
    const StoredConstant& stored = *tensor.stored;
    if (stored.fits_nibbles()) {
      const char* suffix = stored.values.dtype() == DType::kInt8 ? kSignedNibbles : kUnsignedNibbles;
      entries.push_back({tensor.name + suffix, pack_nibbles(stored.values)});
    } else {
      entries.push_back({tensor.name + kValues, stored.values});
    }
    if (stored.scale.defined()) entries.push_back({tensor.name + kScale, stored.scale});
    if (stored.zero_point.defined()) entries.push_back({tensor.name + kZeroPoint, stored.zero_point});
  }
  return entries;
}

std::string make_header(const Program& program, const std::vector<Entry>& entries) {
  Json header = Json::object();
  header["__metadata__"] = {
      {"format",  "octet"                                },
      {"version", std::to_string(Program::kFormatVersion)},
      {"program", to_json_text(program)                  }
  };
  size_t end = 0;
  int paddings = 0;
  const auto entry = [&](const std::string& name, const char* dtype, const std::vector<int64_t>& shape, size_t bytes) {
    header[name] = {
        {"dtype",        dtype             },
        {"shape",        shape             },
        {"data_offsets", {end, end + bytes}}
    };
    end += bytes;
  };
  for (const auto& [name, data] : entries) {
    if (const size_t gap = aligned(end) - end; gap != 0) entry(fmt::format("{}{}", kPadding, paddings++), "U8", {static_cast<int64_t>(gap)}, gap);
    OCTET_ASSERT(!header.contains(name), "tensor name " + name + " is used twice");
    entry(name, dtype_in_file(name, data.dtype()), data.shape(), data.nbytes());
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize(aligned(8 + text.size()) - 8, ' ');
  if (text.size() > kLargestHeader) throw Error("artifact", program.backend, "the program's description exceeds 100 MB; lower a smaller graph");
  return text;
}

void write_file(const Program& program, const std::filesystem::path& path) {
  const std::vector<Entry> entries = entries_of(program);
  const std::string header = make_header(program, entries);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  size_t end = 0;
  const char zeros[kAlignment] = {};
  for (const Entry& entry : entries) {
    file.write(zeros, static_cast<std::streamsize>(aligned(end) - end));
    end = aligned(end) + entry.data.nbytes();
    file.write(reinterpret_cast<const char*>(entry.data.raw()), static_cast<std::streamsize>(entry.data.nbytes()));
  }
  file.close();
  if (!file)
    throw Error("artifact", path.string(), fmt::format("cannot be written ({}); check the folder and the space on the disk", std::strerror(errno)));
}

// ---- reading

// The whole file, mapped copy-on-write.
std::shared_ptr<Storage> map_file(const std::string& name) {
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw Error("artifact", name, fmt::format("cannot be opened ({}); check the path", std::strerror(errno)));
  struct stat status {};
  const bool is_file = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const size_t size = is_file ? static_cast<size_t>(status.st_size) : 0;
  void* address = size < 8 ? MAP_FAILED : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, descriptor, 0);
  const int fault = errno;
  ::close(descriptor);
  if (!is_file) throw Error("artifact", name, "is no file; give what `octet lower` wrote");
  if (size < 8) throw Error("artifact", name, fmt::format("has {} bytes, want at least 8; the file is cut off", size));
  if (address == MAP_FAILED) throw Error("artifact", name, fmt::format("cannot be mapped ({})", std::strerror(fault)));
  auto storage = std::make_shared<Storage>();
  storage->data = static_cast<std::byte*>(address);
  storage->size = size;
  storage->owner = std::shared_ptr<void>(address, [size](void* block) { ::munmap(block, size); });
  return storage;
}

Json parse_header(const std::string& name, const Storage& file, size_t& data_begin) {
  uint64_t length = 0;
  std::memcpy(&length, file.data, sizeof(length));
  if (length > kLargestHeader || length > file.size - 8)
    throw Error("artifact", name,
                fmt::format("its header claims {} bytes, got {} after the length; the file is damaged or not an .octet", length, file.size - 8));
  data_begin = 8 + static_cast<size_t>(length);
  const char* text = reinterpret_cast<const char*>(file.data) + 8;
  Json header = Json::parse(text, text + length, nullptr, false);
  if (!header.is_object()) throw Error("artifact", name, "its header is not JSON; the file is damaged or not an .octet");
  return header;
}

std::string metadata_text(const std::string& name, const Json& header, const char* key) {
  const auto metadata = header.find("__metadata__");
  if (metadata != header.end() && metadata->is_object()) {
    const auto found = metadata->find(key);
    if (found != metadata->end() && found->is_string()) return found->get<std::string>();
  }
  throw Error("artifact", name, fmt::format("its metadata lacks \"{}\"; give what `octet lower` wrote", key));
}

// The file being read: its mapped bytes and its description.
struct Source {
  const std::string& name;
  const std::shared_ptr<Storage>& file;
  const Json& header;
  size_t data_begin;
};

[[noreturn]] void fail(const Source& source, const std::string& constant, const std::string& what) {
  throw Error("artifact", source.name, fmt::format("constant {}: {}; the file is damaged", constant, what));
}

// The bytes of one entry, checked against what its dtype and shape must be.
Tensor entry_data(const Source& source, const std::string& key, DType dtype, const std::vector<int64_t>& shape) {
  const auto entry = source.header.find(key);
  if (entry == source.header.end() || !entry->is_object()) fail(source, key, "is missing");
  const auto given_dtype = entry->find("dtype");
  const auto given_shape = entry->find("shape");
  const auto offsets = entry->find("data_offsets");
  if (given_dtype == entry->end() || given_shape == entry->end() || offsets == entry->end()) fail(source, key, "lacks dtype, shape or data_offsets");
  if (*given_dtype != dtype_in_file(key, dtype) || *given_shape != Json(shape)) fail(source, key, "dtype or shape differ from the program's");
  if (!offsets->is_array() || offsets->size() != 2 || !offsets->at(0).is_number_unsigned() || !offsets->at(1).is_number_unsigned())
    fail(source, key, "data_offsets are not two positive integers");
  const uint64_t begin = offsets->at(0).get<uint64_t>();
  const uint64_t end = offsets->at(1).get<uint64_t>();
  const size_t available = source.file->size - source.data_begin;
  const size_t bytes = static_cast<size_t>(product(shape)) * size_of(dtype);
  if (begin > end || end > available) fail(source, key, fmt::format("lies at {}..{}, got {} bytes of data", begin, end, available));
  if (end - begin != bytes) fail(source, key, fmt::format("has {} bytes, want {}", end - begin, bytes));
  if ((source.data_begin + begin) % size_of(dtype) != 0) fail(source, key, fmt::format("starts at {}, want a multiple of its element size", begin));
  auto storage = std::make_shared<Storage>();
  storage->data = source.file->data + source.data_begin + begin;
  storage->size = bytes;
  storage->owner = source.file;
  return Tensor(std::move(storage), dtype, shape, contiguous_strides(shape), 0);
}

// How many blocks each dimension of the constant is cut into: the shape of its scales in the file.
std::vector<int64_t> stored_blocks(const Source& source, const ProgramTensor& tensor) {
  const std::string key = tensor.name + kScale;
  const Json& entry = source.header.at(key);
  const auto shape = entry.find("shape");
  const bool has_rank = entry.is_object() && shape != entry.end() && shape->is_array() && shape->size() == tensor.shape.size();
  if (!has_rank) fail(source, key, fmt::format("has no shape of {} dimensions", tensor.shape.size()));
  std::vector<int64_t> blocks;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    const Json& size = shape->at(d);
    if (!size.is_number_unsigned() || size.get<uint64_t>() > static_cast<uint64_t>(std::max<int64_t>(tensor.shape[d], 1)))
      fail(source, key, fmt::format("cuts dimension {} of size {} into {} blocks", d, tensor.shape[d], size.dump()));
    blocks.push_back(size.get<int64_t>());
  }
  return blocks;
}

StoredConstant read_stored(const Source& source, const ProgramTensor& tensor) {
  StoredConstant stored;
  if (source.header.contains(tensor.name + kScale)) {
    const std::vector<int64_t> blocks = stored_blocks(source, tensor);
    stored.scale = entry_data(source, tensor.name + kScale, DType::kFloat32, blocks);
    if (source.header.contains(tensor.name + kZeroPoint)) stored.zero_point = entry_data(source, tensor.name + kZeroPoint, DType::kFloat32, blocks);
  }
  for (const auto& [suffix, dtype] : {
           std::pair{kSignedNibbles,   DType::kInt8 },
           std::pair{kUnsignedNibbles, DType::kUInt8}
  })
    if (source.header.contains(tensor.name + suffix)) {
      const Tensor bytes = entry_data(source, tensor.name + suffix, DType::kUInt8, {(product(tensor.shape) + 1) / 2});
      stored.values = unpack_nibbles(bytes, dtype, tensor.shape);
    }
  if (!stored.values.defined()) {
    const std::string key = tensor.name + kValues;
    const Json entry = source.header.value(key, Json::object());
    const DTypeRow* row = std::find_if(std::begin(kDTypes), std::end(kDTypes), [&](const DTypeRow& candidate) {
      return entry.is_object() && entry.value("dtype", Json()) == candidate.name;
    });
    if (row == std::end(kDTypes)) fail(source, key, "is missing or has an unknown dtype");
    stored.values = entry_data(source, key, row->dtype, tensor.shape);
  }
  const std::string fault = find_fault(stored);
  if (!fault.empty()) fail(source, tensor.name, fault);
  return stored;
}

void read_constant(const Source& source, ProgramTensor& tensor) {
  const bool is_stored = source.header.contains(tensor.name + kScale) || source.header.contains(tensor.name + kValues);
  if (source.header.contains(tensor.name) || !is_stored) {
    tensor.data = entry_data(source, tensor.name, tensor.dtype, tensor.shape);
    return;
  }
  if (tensor.dtype != DType::kFloat32) fail(source, tensor.name, fmt::format("is stored in another form, but is {}", name_of(tensor.dtype)));
  tensor.stored = read_stored(source, tensor);
  tensor.data = expand(*tensor.stored);
}

}  // namespace

void save_program(const Program& program, const std::filesystem::path& path) {
  verify(program);
  std::set<std::string> names;
  for (const ProgramTensor& tensor : program.tensors) OCTET_ASSERT(names.insert(tensor.name).second, "tensor name " + tensor.name + " is used twice");
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.tmp", ::getpid());
  std::error_code ignored;
  try {
    write_file(program, temporary);
    std::filesystem::rename(temporary, path);
  } catch (const std::filesystem::filesystem_error& fault) {
    std::filesystem::remove(temporary, ignored);
    throw Error("artifact", path.string(), fmt::format("cannot be written ({}); check the folder", fault.code().message()));
  } catch (...) {
    std::filesystem::remove(temporary, ignored);
    throw;
  }
}

Program load_program(const std::filesystem::path& path) {
  const std::string name = path.string();
  const std::shared_ptr<Storage> file = map_file(name);
  size_t data_begin = 0;
  const Json header = parse_header(name, *file, data_begin);
  if (metadata_text(name, header, "format") != "octet") throw Error("artifact", name, "holds tensors but no program; give what `octet lower` wrote");
  const std::string version = metadata_text(name, header, "version");
  if (version != std::to_string(Program::kFormatVersion))
    throw Error("artifact", name,
                fmt::format("has format version {}, want {}; lower the model again with this build", version, Program::kFormatVersion));
  Program program = program_from_json_text(metadata_text(name, header, "program"), name);
  for (ProgramTensor& tensor : program.tensors)
    if (tensor.role == ProgramTensor::Role::kConstant) read_constant({name, file, header, data_begin}, tensor);
  try {
    verify(program);
  } catch (const InternalError& fault) {
    throw Error("artifact", name, fmt::format("the program in it contradicts itself ({}); the file is damaged", fault.what()));
  }
  return program;
}

}  // namespace octet
