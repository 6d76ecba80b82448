// Files for tests of archives: the programs of make_models.py, and damaged copies.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

namespace octet::testing {

// models/core/NAME.pt2 in the build folder.
std::filesystem::path model_path(const std::string& name);

// A new empty folder, removed with the object.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  // The names of its files, sorted.
  std::vector<std::string> files() const;

 private:
  std::filesystem::path folder_;
};

std::string read_bytes(const std::filesystem::path& path);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);

// Copies the archive; `edit` changes a record's bytes, and returns false to leave the record out.
using RecordEdit = std::function<bool(const std::string& name, std::string& bytes)>;
void edit_archive(const std::filesystem::path& from, const std::filesystem::path& to,
                  const RecordEdit& edit);

// Copies the archive with one JSON record changed.
void edit_json(const std::filesystem::path& from, const std::filesystem::path& to,
               const std::string& record, const std::function<void(nlohmann::json&)>& edit);

// models/<name>.json, and every record that is compared byte by byte.
nlohmann::json program_json(const std::filesystem::path& path);

// what() of the octet::Error that reading the program throws, or "".
std::string reading_error(const std::filesystem::path& path);

}  // namespace octet::testing
