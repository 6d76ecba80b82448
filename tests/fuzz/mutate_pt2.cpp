// mutate_pt2 SECONDS FILE.pt2...: changes the files at random and reads them. An Error is a proper answer; any other exception is a finding, and so is a
// crash: the file is left beside the program as finding.pt2. libFuzzer is for clang alone, and LibTorch's part is built by GCC; so this chooses its own
// changes: most are made in the JSON records, behind the zip's check sums.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/pt2_archive.h"
#include "core/pt2_reader.h"
#include "core/verify.h"

namespace {

using Record = std::pair<std::string, std::string>;  // name, bytes
using Records = std::vector<Record>;

constexpr const char* kNumbers[] = {
    "-1", "0", "1", "2147483648", "4294967296", "9223372036854775807", "-9223372036854775808", "18446744073709551615", "1e999"};
constexpr const char* kTexts[] = {"null", "[]", "{}", "\"\"", "true", "[[[[[[[[[[[[]]]]]]]]]]]]"};

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  size_t below(size_t limit) { return limit == 0 ? 0 : std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }

  // One change of a text or of bytes.
  void change(std::string& bytes) {
    if (bytes.empty()) return;
    const size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        return;
      case 1:
        bytes.erase(at, 1 + below(20));
        return;
      case 2:
        bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(40)));
        return;
      case 3:
        return replace_token(bytes, "0123456789-.", kNumbers[below(std::size(kNumbers))], at);
      case 4:
        return replace_token(bytes, "abcdefghijklmnopqrstuvwxyz_0123456789.", kNumbers[below(std::size(kNumbers))], at);
      default:
        return replace_value(bytes, at);
    }
  }

 private:
  // The run of such characters from `at` on, and what stands in its place.
  static void replace_token(std::string& bytes, const char* characters, const std::string& token, size_t at) {
    const size_t begin = bytes.find_first_of(characters, at);
    if (begin == std::string::npos) return;
    bytes.replace(begin, bytes.find_first_not_of(characters, begin) - begin, token);
  }

  // What follows a colon up to the next comma or bracket.
  void replace_value(std::string& bytes, size_t at) {
    const size_t colon = bytes.find(": ", at);
    if (colon == std::string::npos) return;
    bytes.replace(colon + 2, bytes.find_first_of(",]}", colon) - colon - 2, kTexts[below(std::size(kTexts))]);
  }

  std::mt19937 random_;
};

Records records_of(const std::string& path) {
  const octet::ArchiveReader reader(path, "fuzz");
  Records records;
  for (const std::string& name : reader.names())
    if (!name.starts_with(".data/") && name != "byteorder") records.emplace_back(name, reader.read(name));
  return records;
}

void write_archive(const std::filesystem::path& path, const Records& records) {
  octet::ArchiveWriter writer(path, "fuzz");
  for (const auto& [name, bytes] : records) writer.write(name, bytes);
  writer.commit();
}

bool is_text(const Record& record) { return !record.second.empty() && (record.second.front() == '{' || record.second.front() == '['); }

// A changed copy of the file.
void write_changed(const std::filesystem::path& path, Records records, Mutator& mutator) {
  Record& chosen = records[mutator.below(records.size())];
  if (is_text(chosen) || mutator.below(8) == 0)
    for (size_t i = 0, n = 1 + mutator.below(4); i < n; ++i) mutator.change(chosen.second);
  if (mutator.below(16) == 0) records.erase(records.begin() + static_cast<std::ptrdiff_t>(mutator.below(records.size())));
  write_archive(path, records);
  if (mutator.below(16) != 0) return;
  std::FILE* file = std::fopen(path.c_str(), "r+b");  // the zip itself
  if (file == nullptr) return;
  std::fseek(file, static_cast<long>(mutator.below(std::filesystem::file_size(path))), SEEK_SET);
  std::fputc(static_cast<int>(mutator.below(256)), file);
  std::fclose(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("mutate_pt2: want SECONDS FILE.pt2...\n", stderr);
    return 2;
  }
  std::vector<Records> files;
  for (int i = 2; i < argc; ++i) files.push_back(records_of(argv[i]));
  const std::filesystem::path finding = std::filesystem::path(argv[0]).parent_path() / "finding.pt2";
  const uint32_t seed = std::random_device()();
  Mutator mutator(seed);
  const std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  size_t read = 0, runs = 0;
  try {
    for (; std::chrono::steady_clock::now() < end; ++runs) {
      write_changed(finding, files[mutator.below(files.size())], mutator);
      try {
        const octet::Graph graph = octet::read_pt2(finding);
        octet::verify(graph);
        ++read;
      } catch (const octet::Error&) {
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutate_pt2: seed %u, run %zu: %s; the file is %s\n", seed, runs, error.what(), finding.c_str());
    return 1;
  }
  std::filesystem::remove(finding);
  std::printf("%zu files, %zu of them read\n", runs, read);
  return 0;
}
