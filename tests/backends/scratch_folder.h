// A temporary folder for one test.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/backends/small_programs.h"

namespace octet {

// Creates a folder, and removes it with its contents at the end.
class Folder {
 public:
  explicit Folder(const std::string& name) : path_(temporary_file(name)) {
    std::filesystem::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    if (std::filesystem::is_directory(path_))
      for (const std::filesystem::directory_entry& entry :
           std::filesystem::directory_iterator(path_))
        found.push_back(entry.path());
    return found;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace octet
