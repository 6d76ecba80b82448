// write_seeds FOLDER: writes the seed programs as FOLDER/artifact/*.octet and
// FOLDER/program/*.json.
#define CATCH_CONFIG_RUNNER  // the program builder links Catch2; main is below
#include <catch2/catch.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lowering/program/artifact.h"
#include "lowering/program/program_json.h"
#include "tests/fuzz/seed_programs.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("write_seeds: want one folder\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder / "artifact");
  std::filesystem::create_directories(folder / "program");
  for (const octet::fuzz::SeedProgram& seed : octet::fuzz::seed_programs()) {
    octet::save_program(seed.program, folder / "artifact" / (seed.name + ".octet"));
    std::ofstream(folder / "program" / (seed.name + ".json")) << octet::to_json_text(seed.program);
  }
  return 0;
}
