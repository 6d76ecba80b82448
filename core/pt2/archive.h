// Reads and writes the container of .pt2 files: a zip with uncompressed records below one folder.
// Weights are mapped without copying. Knows records and payloads but not the graph
// (core/pt2/reader.h, core/pt2/writer.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/tensor.h"

namespace octet {

// What the file contains besides the graph and its tensors, kept so that the writer writes it back
// unchanged.
struct ArchiveExtras {
  std::string model_name = "model";  // of models/<name>.json
  // The ExportedProgram as JSON with empty "graph" and "signature": module call graph, tree specs,
  // opset and torch versions, verifiers, guards.
  std::string program_json;
  // Records other than tensors and the program, by name and in file order: extra files
  // ("extra/notes.txt"), data/sample_inputs/<name>.pt, archive_format, ...
  std::vector<std::pair<std::string, std::string>> records;
  // Fully qualified names in the order of the two payload tables; they also identify payloads that
  // no input names.
  std::vector<std::string> weight_order;
  std::vector<std::string> constant_order;
  // Payloads other than tensors (custom objects): fqn -> (its PayloadMeta as JSON, the pickled
  // bytes).
  std::map<std::string, std::pair<std::string, std::string>> objects;
  std::string custom_obj_values_json;  // of the top graph: name -> {name, class_fqn}
};

// Alignment in the file of tensors that are used without copying.
inline constexpr size_t kTensorAlignment = 16;

// A .pt2 file, or any zip that torch writes, opened for reading. The mapping stays alive while a
// Storage uses it.
class ArchiveReader {
 public:
  // stage: of the Errors, "pt2" or "inputs". Throws Error when the file cannot be opened, is not a
  // zip archive, or is damaged.
  ArchiveReader(const std::filesystem::path& path, std::string stage);
  // Reads an archive in memory, such as a record of another one. name: in Errors.
  ArchiveReader(std::string bytes, std::string name, std::string stage);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  // Names without the leading folder, in file order.
  const std::vector<std::string>& names() const;
  bool has(std::string_view name) const;
  // A copy of the bytes. Throws Error when there is no such record or it is damaged.
  std::string read(const std::string& name) const;
  // The bytes as a storage: a copy-on-write view of the mapped file when the record is
  // uncompressed, aligned to `alignment` and inside of the file, else a copy. There is one Storage
  // per name. Throws as read() does.
  std::shared_ptr<Storage> map(const std::string& name, size_t alignment = kTensorAlignment);

 private:
  struct State;
  void open();  // the mapping
  std::unique_ptr<State> state_;
};

// Writes a zip like torch does, to a file beside `path` that commit() renames, so that readers
// never see a partial archive.
class ArchiveWriter {
 public:
  // Throws Error when the folder is not writable.
  ArchiveWriter(const std::filesystem::path& path, std::string stage);
  ~ArchiveWriter();  // removes the unfinished file without commit()
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

}  // namespace octet
