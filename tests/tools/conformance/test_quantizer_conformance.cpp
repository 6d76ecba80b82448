// Checks the conformance kit of quantizers: it catches wrong ones, and does not blame right ones.
#include <algorithm>
#include <csignal>

#include <fmt/format.h>

#include "backends/registry.h"
#include "quantizers/registry.h"
#include "tests/tools/conformance/quantizer_mutants.h"
#include "tools/cli/conformance/quantizer_cells.h"

// After torch, which defines a macro CHECK.
#include <catch2/catch.hpp>

namespace octet::test_quantizer_conformance {
namespace {

using namespace conformance;
using Catch::Matchers::Contains;

bool has_backend(const std::string& name) {
  const std::vector<std::string> names = backend_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_caught(const test::QuantizerMutant& mutant, const std::vector<GraphCell>& cells) {
  const QuantizerOfCells quantizer = {.make = [&] { return test::make_mutant(mutant); }};
  return std::any_of(cells.begin(), cells.end(), [&](const GraphCell& cell) {
    return !run_graph_cell(cell, quantizer, {.backend = mutant.backend, .quantizer = "mutant"})
                .passed();
  });
}

// Networks first, which have most kinds of layers.
std::vector<GraphCell> varied_cells() {
  std::vector<GraphCell> cells = graph_cells();
  std::stable_partition(cells.begin(), cells.end(),
                        [](const GraphCell& cell) { return cell.kind == "network"; });
  return cells;
}

std::vector<CellResult> run(const std::string& name, ConformanceOptions options) {
  options.quantizer = name;
  const QuantizerOfCells quantizer = {.make = [&] { return make_quantizer(name); }};
  return run_jobs(quantizer_jobs(quantizer, options), options.timeout);
}

}  // namespace

TEST_CASE("conformance catches wrong quantizers", "[conformance][native]") {
  const std::vector<GraphCell> cells = varied_cells();
  std::vector<std::string> missed;
  for (const test::QuantizerMutant& mutant : test::quantizer_mutants())
    if (has_backend(mutant.backend) && !is_caught(mutant, cells))
      missed.push_back(fmt::format("{} of {}", mutant.name, mutant.base));
  CAPTURE(missed);
  CHECK(test::quantizer_mutants().size() >= 80);
  CHECK(missed.empty());
}

TEST_CASE("quantizers of this build conform", "[conformance][native]") {
  for (const auto& [name, backend] : {std::pair<const char*, const char*>{"xnnpack", "xnnpack"},
                                      {"x86", "onednn"},
                                      {"embedding,xnnpack", "xnnpack"},
                                      {"embedding", "reference"}}) {
    if (!has_backend(backend)) continue;
    const ConformanceOptions options{.backend = backend, .quantizer = name};
    const std::vector<CellResult> results = run(name, options);
    CHECK(results.size() > 400);
    INFO(to_text(results, options));
    CHECK(std::all_of(results.begin(), results.end(),
                      [](const CellResult& result) { return result.passed(); }));
  }
}

TEST_CASE("a quantizer that crashes does not end the others", "[conformance]") {
  register_quantizer("crashing", [](const QuantizerOptions&) -> std::unique_ptr<Quantizer> {
    std::raise(SIGKILL);
    return nullptr;
  });
  const ConformanceOptions options{
      .backend = "reference", .quantizer = "crashing", .filter = "^conv/(odd|plain)$"};
  const std::vector<CellResult> results = run("crashing", options);
  REQUIRE(results.size() == 2);
  CHECK(results[0].outcome == Outcome::kCrashed);
  CHECK_THAT(to_text(results, options),
             Contains("octet conformance --quantizer crashing --backend reference --seed 1 "
                      "--filter '^conv/odd$'") &&
                 Contains("= aten.conv2d.default("));
}

TEST_CASE("names of a quantizer's cells are unique, and there are enough", "[conformance]") {
  std::vector<std::string> names;
  for (const GraphCell& cell : graph_cells()) names.push_back(cell.name);
  CHECK(names.size() > 400);
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

}  // namespace octet::test_quantizer_conformance
