// libFuzzer target for the reader of .pt2 files. An input is a whole file; most changes are made in
// its JSON records, with correct checksums of the zip.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/base/error.h"
#include "core/pt2/reader.h"
#include "tests/fuzz/pt2_records.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* bytes, size_t size, size_t most);

namespace {

using namespace octet::fuzz;

// The readers take files, not memory. Each process has one file.
std::filesystem::path scratch_file(const char* name) {
  return std::filesystem::temp_directory_path() /
         ("octet_fuzz_" + std::to_string(::getpid()) + "_" + name);
}

void write_file(const std::filesystem::path& path, const uint8_t* bytes, size_t size) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
}

// The record after a change of fields or bytes, by libFuzzer or by ours.
void change_record(Record& changed, Mutator& mutator) {
  std::string& record = changed.second;
  if (is_text(changed) && mutator.below(2) == 0) {
    JsonMutator fields(static_cast<uint32_t>(mutator.below(UINT32_MAX)), {});
    return change_fields(record, fields);
  }
  if (mutator.below(2) == 0) return mutator.change(record);
  const size_t size = record.size();
  record.resize(size + 256);
  record.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(record.data()), size, record.size()));
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* bytes, size_t size, size_t most,
                                          unsigned int seed) {
  Mutator mutator(seed);
  if (mutator.below(8) == 0) return LLVMFuzzerMutate(bytes, size, most);
  const std::filesystem::path path = scratch_file("changed.pt2");
  try {
    write_file(path, bytes, size);
    Records records = records_of(path);
    if (records.empty()) return LLVMFuzzerMutate(bytes, size, most);
    Record& chosen = records[mutator.below(records.size())];
    if (is_text(chosen) || mutator.below(8) == 0) change_record(chosen, mutator);
    if (mutator.below(16) == 0)
      records.erase(records.begin() + static_cast<std::ptrdiff_t>(mutator.below(records.size())));
    write_archive(path, records);
    std::ifstream file(path, std::ios::binary);
    const std::string changed{std::istreambuf_iterator<char>(file), {}};
    if (changed.size() > most) return LLVMFuzzerMutate(bytes, size, most);
    std::copy(changed.begin(), changed.end(), bytes);
    return changed.size();
  } catch (const octet::Error&) {
    return LLVMFuzzerMutate(bytes, size, most);  // no archive any more
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::filesystem::path path = scratch_file("input.pt2");
  write_file(path, bytes, size);
  try {
    octet::read_pt2(path);
  } catch (const octet::Error&) {
  }
  return 0;
}
