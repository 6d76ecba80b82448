#include "core/pt2/archive_fixture.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/pt2/archive.h"
#include "core/pt2/reader.h"

namespace octet::testing {

std::filesystem::path model_path(const std::string& name) {
  return std::filesystem::path(OCTET_BINARY_DIR) / "models/core" / (name + ".pt2");
}

Scratch::Scratch() {
  static int count = 0;
  folder_ =
      std::filesystem::temp_directory_path() / fmt::format("octet-test-{}-{}", getpid(), count++);
  std::filesystem::create_directories(folder_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> Scratch::files() const {
  std::vector<std::string> names;
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void edit_archive(const std::filesystem::path& from, const std::filesystem::path& to,
                  const RecordEdit& edit) {
  const ArchiveReader reader(from, "test");
  ArchiveWriter writer(to, "test");
  for (const std::string& name : reader.names()) {
    if (name.starts_with(".data/") || name == "byteorder") continue;  // the writer makes them
    std::string bytes = reader.read(name);
    if (edit(name, bytes)) writer.write(name, bytes);
  }
  writer.commit();
}

void edit_json(const std::filesystem::path& from, const std::filesystem::path& to,
               const std::string& record, const std::function<void(nlohmann::json&)>& edit) {
  edit_archive(from, to, [&](const std::string& name, std::string& bytes) {
    if (name != record) return true;
    nlohmann::json text = nlohmann::json::parse(bytes);
    edit(text);
    bytes = text.dump();
    return true;
  });
}

nlohmann::json program_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(ArchiveReader(path, "test").read("models/model.json"));
}

std::string reading_error(const std::filesystem::path& path) {
  try {
    read_pt2(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace octet::testing
