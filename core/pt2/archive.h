// The container of a .pt2 file: a zip of stored records below one folder, weights mapped without
// copying. Knows records and payloads, not the graph (core/pt2/reader.h, core/pt2/writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/tensor.h"

namespace octet {

// What the file holds besides the graph and its tensors, kept so that the writer puts it back
// unchanged.
struct ArchiveExtras {
  std::string model_name = "model";  // of models/<name>.json
  // The ExportedProgram as JSON with "graph" and "signature" left empty: module call graph, tree
  // specs, opset and torch versions, verifiers, guards.
  std::string program_json;
  // Records that are no tensor and no program, by name and in file order: extra files
  // ("extra/notes.txt"), data/sample_inputs/<name>.pt, archive_format, ...
  std::vector<std::pair<std::string, std::string>> records;
  // Fully qualified names in the order of the two payload tables; what only a table names (and no
  // input) is told apart by these.
  std::vector<std::string> weight_order;
  std::vector<std::string> constant_order;
  // Payloads that are no tensors (custom objects): fqn -> (its PayloadMeta as JSON, the pickled
  // bytes).
  std::map<std::string, std::pair<std::string, std::string>> objects;
  std::string custom_obj_values_json;  // of the top graph: name -> {name, class_fqn}
};

// What the first byte of a tensor that is used as it lies in the file must be a multiple of.
inline constexpr size_t kTensorAlignment = 16;

// A .pt2 file (or any zip that torch writes) opened for reading. Move-only through the pointer; the
// mapping outlives it while a Storage uses it.
class ArchiveReader {
 public:
  // stage: of the Errors, "pt2" or "inputs". Throws Error when the file cannot be opened, is no
  // zip, or is damaged.
  ArchiveReader(const std::filesystem::path& path, std::string stage);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // Names without the leading folder, in file order.
  const std::vector<std::string>& names() const;
  bool has(std::string_view name) const;
  // The bytes, copied. Throws Error when there is no such record or it is damaged.
  std::string read(const std::string& name) const;
  // The bytes as a storage: a view of the mapped file (copy-on-write) when the record is stored,
  // starts at a multiple of `alignment` and lies inside of the file, else a copy. One Storage
  // object per name: asked twice, the same is given. Throws as read().
  std::shared_ptr<Storage> map(const std::string& name, size_t alignment = kTensorAlignment);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A zip as torch writes them, made beside `path` and renamed over it by commit(), so that a reader
// never sees half of it.
class ArchiveWriter {
 public:
  // Throws Error when the folder is not writable.
  ArchiveWriter(const std::filesystem::path& path, std::string stage);
  ~ArchiveWriter();  // removes the unfinished file when commit() was not reached
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  void write(const std::string& name, std::string_view bytes);
  bool has(const std::string& name) const;
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// LibTorch's multi-line exception text as one line: the first line, without the C++ backtrace and
// source positions.
std::string one_line(std::string_view text);

// Of zip: the CRC-32 of its records. By LibTorch's header.
uint32_t crc32(const void* bytes, size_t size);

// How large a zip becomes, asked before any of it is unpacked.

// Throws Error(stage, path, ...) when the members of the zip, as its directory states their sizes,
// take more than 200 times the bytes of the file (and more than a MiB). torch stores members as
// they are; what was compressed anew stays far below. Damage is left to the reader of the zip.
void check_unpacked_size(std::span<const std::byte> zip, const std::string& stage,
                         const std::string& path);

}  // namespace octet
