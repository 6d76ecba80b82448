// Runs what the fuzzers have found, in tests/fuzz/cases: .octet files and JSON texts of programs,
// which must run or be refused.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/backends/small_programs.h"
#include "tests/fuzz/run_program.h"

namespace octet::test_found_cases {

TEST_CASE("what fuzzers found is refused or runs", "[fuzz]") {
  size_t count = 0;
  for (const std::filesystem::directory_entry& entry :
       std::filesystem::directory_iterator(OCTET_TEST_DATA "/fuzz/cases")) {
    CAPTURE(entry.path().filename().string());
    const std::string bytes = read_bytes(entry.path());
    if (entry.path().extension() == ".octet")
      CHECK_NOTHROW(fuzz::run_artifact(std::as_bytes(std::span(bytes))));
    else if (entry.path().extension() == ".json")
      CHECK_NOTHROW(fuzz::run_program_text(bytes));
    else
      continue;
    ++count;
  }
  CHECK(count > 0);
}

}  // namespace octet::test_found_cases
