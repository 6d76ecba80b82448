// Takes .pt2 files apart into records, changes these and writes them again, for the fuzzers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/json_mutator.h"

namespace octet::fuzz {

using Record = std::pair<std::string, std::string>;  // name, bytes
using Records = std::vector<Record>;

// The records of the archive without those that the writer adds by itself. Throws Error when the
// file is not an archive.
Records records_of(const std::filesystem::path& path);
void write_archive(const std::filesystem::path& path, const Records& records);
// Whether the record is JSON, as its first character tells.
bool is_text(const Record& record);
// Changes 1 to 4 fields of a JSON text; does nothing when it is not JSON.
void change_fields(std::string& text, JsonMutator& mutator);

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  size_t below(size_t limit) {
    return limit == 0 ? 0 : std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }
  // Makes one change of a text or of bytes.
  void change(std::string& bytes);

 private:
  std::mt19937 random_;
};

}  // namespace octet::fuzz
