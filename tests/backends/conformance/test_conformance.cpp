// Checks the conformance kit: it catches wrong backends, and does not blame right ones.
#include <catch2/catch.hpp>

#include <csignal>

#include <unistd.h>

#include "backends/conformance/conformance.h"
#include "backends/conformance/program_builder.h"
#include "backends/registry.h"
#include "core/base/error.h"
#include "tests/backends/conformance/mutants.h"

using namespace octet;
using namespace octet::conformance;
using Catch::Matchers::Contains;

namespace {

bool is_caught(const Mutant& mutant, const std::vector<Cell>& cells) {
  use_mutant(mutant);
  for (const Cell& cell : cells)
    if (cell.kind == mutant.kind &&
        run_cell(cell, {.backend = "mutant"}).outcome == Outcome::kWrong)
      return true;
  return false;
}

// A cell that acts in the child process that runs it.
Cell cell_that(std::function<void()> act) {
  Cell cell = conformance_cells()[0];
  cell.name = "conv/strange/f32";
  cell.make = [act, make = cell.make, tester = ::getpid()](uint32_t seed) {
    if (::getpid() != tester) act();
    return make(seed);
  };
  return cell;
}

}  // namespace

TEST_CASE("conformance catches wrong backends", "[conformance][native]") {
  const std::vector<Cell> cells = conformance_cells();
  std::vector<std::string> missed;
  for (const Mutant& mutant : mutants())
    if (!is_caught(mutant, cells)) missed.push_back(std::string(mutant.kind) + ": " + mutant.name);
  CAPTURE(missed);
  CHECK(mutants().size() >= 100);
  CHECK(missed.empty());
}

TEST_CASE("backends of this build conform", "[conformance][native]") {
  for (const char* backend : {"onednn", "xnnpack", "reference"}) {
    if (std::ranges::count(backend_names(), std::string(backend)) == 0) continue;
    ConformanceOptions options{.backend = backend, .is_quick = true};
    const std::vector<CellResult> results = run_conformance(options);
    CHECK(results.size() > 500);
    INFO(to_text(results, options));
    CHECK(std::ranges::all_of(results, &CellResult::passed));
  }
}

TEST_CASE("names of cells are unique, and there are enough", "[conformance]") {
  std::vector<std::string> names;
  for (const Cell& cell : conformance_cells()) names.push_back(cell.name);
  CHECK(names.size() > 4000);
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}

TEST_CASE("the report names what a backend throws", "[conformance][native]") {
  const auto detail_of = [](std::function<void()> fail) {
    const Mutant mutant = {
        "fails", "add", {}, {}, [fail](std::vector<Tensor>&, int, int) { fail(); }};
    use_mutant(mutant);
    const std::vector<Cell> cells = conformance_cells();
    const auto found = std::ranges::find(cells, "add/odd/f32", &Cell::name);
    const CellResult result = run_cell(*found, {.backend = "mutant"});
    CHECK(result.outcome == Outcome::kWrong);
    CHECK_THAT(result.program, Contains("add"));
    return result.detail;
  };
  CHECK_THAT(detail_of([] { throw std::runtime_error("out of SRAM"); }),
             Contains("mutant") && Contains("out of SRAM"));
  CHECK_THAT(detail_of([] { throw 7; }), Contains("mutant") && Contains("not a std::exception"));
}

TEST_CASE("cells have states and tensors without elements", "[conformance]") {
  size_t states = 0, empty = 0;
  for (const Cell& cell : conformance_cells()) {
    if (cell.kind == "state") ++states;
    if (cell.name.find("/empty/") == std::string::npos) continue;
    ++empty;
    const CellProgram made = cell.make(1);
    CHECK(std::ranges::any_of(made.program.tensors,
                              [](const ProgramTensor& tensor) { return tensor.numel() == 0; }));
  }
  CHECK(states > 20);
  CHECK(empty > 400);
}

TEST_CASE("a cell that crashes or hangs does not end the others", "[conformance]") {
  std::vector<Cell> cells(conformance_cells());
  cells.resize(4);
  cells.push_back(cell_that([] { std::raise(SIGKILL); }));
  cells.push_back(cell_that([] { ::sleep(600); }));
  const std::vector<CellResult> results = run_cells(cells, {.backend = "reference", .timeout = 1});
  for (size_t i = 0; i < 4; ++i) CHECK(results[i].outcome == Outcome::kExact);
  CHECK(results[4].outcome == Outcome::kCrashed);
  CHECK(results[4].detail == "ended by Killed");
  CHECK(results[5].outcome == Outcome::kCrashed);
  CHECK(results[5].detail == "no result in 1 s");
  const std::string text = to_text(results, {.backend = "reference"});
  CHECK_THAT(text, Contains("conv/strange/f32: crashed: ended by Killed"));
  CHECK_THAT(text, Contains("octet conformance --backend reference --seed 1 --filter"));
  const std::string xml = to_junit_xml(results, {.backend = "reference"});
  CHECK_THAT(xml, Contains("tests=\"6\" failures=\"0\" errors=\"2\" skipped=\"0\""));
}

TEST_CASE("conformance refuses bad options in one line", "[conformance]") {
  const auto error = [](const ConformanceOptions& options) {
    try {
      run_conformance(options);
    } catch (const Error& caught) {
      return std::string(caught.what());
    }
    return std::string("none");
  };
  CHECK_THAT(error({.backend = "acme"}), Contains("backend: acme: "));
  CHECK_THAT(error({.backend = "reference", .filter = "("}), Contains("not a regular expression"));
  CHECK_THAT(error({.backend = "reference", .filter = "sparse"}),
             Contains("no cell has such a name"));
}
