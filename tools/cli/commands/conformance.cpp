// Implements octet conformance, which runs the cells of backends/conformance on a backend.
#include <algorithm>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "backends/conformance/conformance.h"
#include "core/base/error.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

struct ConformanceRun {
  conformance::ConformanceOptions run;
  std::vector<std::string> libraries;
  std::string json, junit, html;
};

void run(const ConformanceRun& options) {
  load_libraries(options.libraries);
  for (const std::string& path : {options.json, options.junit, options.html})
    if (!path.empty()) check_writable(path);
  size_t done = 0;
  const std::vector<conformance::CellResult> results =
      run_conformance(options.run, [&](const conformance::CellResult& result) {
        if (++done % 500 == 0) log_line(fmt::format("{} cells, at {}", done, result.name));
      });
  if (!options.json.empty()) write_text_file(options.json, to_json_text(results, options.run));
  if (!options.junit.empty()) write_text_file(options.junit, to_junit_xml(results, options.run));
  if (!options.html.empty()) write_text_file(options.html, to_html(results, options.run));
  std::cout << to_text(results, options.run);
  const auto failed = std::count_if(results.begin(), results.end(),
                                    [](const auto& result) { return !result.passed(); });
  if (failed > 0)
    throw Error("conformance", options.run.backend,
                fmt::format("{} of {} cells are wrong or crash; the programs and the commands that "
                            "repeat them are above",
                            failed, results.size()));
}

}  // namespace

void add_conformance_command(CLI::App& app) {
  auto options = std::make_shared<ConformanceRun>();
  CLI::App* command =
      app.add_subcommand("conformance", "Compare every op of a backend with the reference");
  conformance::ConformanceOptions& run_options = options->run;
  command->add_option("--backend", run_options.backend, "The backend")->required();
  add_library_option(*command, options->libraries);
  command->add_option("--filter", run_options.filter,
                      "Only cells whose name this regular expression matches, such as conv/odd");
  command->add_flag("--quick", run_options.is_quick, "Only every eighth cell of each op");
  command->add_option("--seed", run_options.seed, "Seed of the data")->capture_default_str();
  command->add_option("--timeout", run_options.timeout, "Seconds that a cell may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--device-cmd", run_options.device_command,
                      "Runs a cell on a device: called with a folder that has program.octet and "
                      "input_0.bin, ..., it writes output_0.bin, ... there");
  command->add_option("--json", options->json, "Write all results as JSON");
  command->add_option("--junit", options->junit, "Write all results as JUnit XML");
  command->add_option("--html", options->html, "Write a page with the results");
  command->callback([options] { run(*options); });
}

}  // namespace octet
