// mutate_pt2 SECONDS SEED FILE.pt2...: changes the files at random and reads them. An Error is
// correct; another exception or a crash is a finding, which is written as finding.pt2 beside the
// program. It chooses its changes itself, for builds without libFuzzer (fuzz_pt2 uses that); most
// are made in the JSON records, with correct checksums of the zip.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "tests/fuzz/pt2_records.h"

namespace {

using namespace octet::fuzz;

// A changed copy of the file.
void write_changed(const std::filesystem::path& path, Records records, Mutator& mutator) {
  Record& chosen = records[mutator.below(records.size())];
  if (is_text(chosen) && mutator.below(2) == 0) {
    JsonMutator fields(static_cast<uint32_t>(mutator.below(UINT32_MAX)), {});
    change_fields(chosen.second, fields);
  } else if (is_text(chosen) || mutator.below(8) == 0) {
    for (size_t i = 0, n = 1 + mutator.below(4); i < n; ++i) mutator.change(chosen.second);
  }
  if (mutator.below(16) == 0)
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(mutator.below(records.size())));
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
  if (argc < 4) {
    std::fputs("mutate_pt2: want SECONDS SEED FILE.pt2...\n", stderr);
    return 2;
  }
  std::vector<Records> files;
  for (int i = 3; i < argc; ++i) files.push_back(records_of(argv[i]));
  const std::filesystem::path finding =
      std::filesystem::path(argv[0]).parent_path() / "finding.pt2";
  const auto seed = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  Mutator mutator(seed);
  const std::chrono::steady_clock::time_point end =
      std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
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
    std::fprintf(stderr, "mutate_pt2: seed %u, run %zu: %s; the file is %s\n", seed, runs,
                 error.what(), finding.c_str());
    return 1;
  }
  std::filesystem::remove(finding);
  std::printf("%zu files, %zu of them read\n", runs, read);
  return 0;
}
