// mutate_programs SECONDS [SEED]: changes fields of the seed programs, in .octet files with correct
// checksums and in JSON texts of programs, and runs what loads. An Error is correct; another
// exception or a crash is a finding, which is written as finding.octet or finding.json beside the
// program. It chooses its changes itself, for builds without libFuzzer (fuzz_artifact and
// fuzz_program use that).
#define CATCH_CONFIG_RUNNER  // the program builder links Catch2; main is below
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "lowering/program/artifact.h"
#include "lowering/program/program_json.h"
#include "tests/backends/small_programs.h"
#include "tests/fuzz/octet_file.h"
#include "tests/fuzz/run_program.h"
#include "tests/fuzz/seed_programs.h"

namespace {

using namespace octet::fuzz;

struct Seed {
  nlohmann::json program;
  OctetFile file;
};

std::vector<Seed> read_seeds() {
  std::vector<Seed> seeds;
  for (const SeedProgram& seed : seed_programs()) {
    const std::string bytes = octet::program_bytes(seed.program);
    seeds.push_back({nlohmann::json::parse(octet::to_json_text(seed.program)),
                     take_apart(std::as_bytes(std::span(bytes))).value()});
  }
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("mutate_programs: want SECONDS [SEED]\n", stderr);
    return 2;
  }
  const uint32_t seed =
      argc < 3 ? std::random_device()() : static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  std::fprintf(stderr, "mutate_programs: seed %u\n", seed);  // a crash prints nothing else
  const std::vector<Seed> seeds = read_seeds();
  const std::filesystem::path folder = std::filesystem::path(argv[0]).parent_path(),
                              text_file = folder / "finding.json",
                              octet_file = folder / "finding.octet";
  JsonMutator mutator(seed, words_of(OCTET_FUZZ_WORDS));
  const std::chrono::steady_clock::time_point end =
      std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
  size_t runs = 0;
  try {
    for (; std::chrono::steady_clock::now() < end; ++runs) {
      const Seed& from = seeds[mutator.below(seeds.size())];
      if (mutator.below(2) == 0) {
        nlohmann::json program = from.program;
        mutator.change_some(program);
        const std::string text =
            program.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        octet::write_bytes(text_file, text);
        run_program_text(text);
      } else {
        OctetFile file = from.file;
        change(file, mutator);
        const std::string bytes = put_together(std::move(file));
        octet::write_bytes(octet_file, bytes);
        run_artifact(std::as_bytes(std::span(bytes)));
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mutate_programs: seed %u, run %zu: %s; what was run is in %s\n", seed,
                 runs, error.what(), folder.c_str());
    return 1;
  }
  std::filesystem::remove(text_file);
  std::filesystem::remove(octet_file);
  std::printf("%zu programs\n", runs);
  return 0;
}
