// Implements octet conformance, which runs the cells of backends/conformance on a backend, or those
// of tools/cli/conformance with a quantizer.
#include <algorithm>
#include <iostream>
#include <regex>

#include <fmt/format.h>

#include "backends/conformance/conformance.h"
#include "core/base/error.h"
#include "core/ops/callable_ops.h"
#include "quantizers/registry.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/options.h"
#include "tools/cli/conformance/file_cells.h"
#include "tools/cli/conformance/quantizer_cells.h"

namespace octet {
namespace {

struct ConformanceRequest {
  conformance::ConformanceOptions run;
  size_t seed = 1;
  std::vector<std::string> libraries;
  std::string same_as, models, json, junit, html;
};

Options options_of(ConformanceRequest& request) {
  conformance::ConformanceOptions& run = request.run;
  return joined(
      {{Option{"backend", &run.backend,
               "The backend; with --quantizer by default the reference. Several with commas "
               "between them: each op goes to the first that accepts it"},
        Option{"quantizer", &run.quantizer,
               "A quantizer, by name or JSON file: check it on small float programs, and "
               "that the backend runs what it annotates"},
        Option{"same_as", &request.same_as,
               "A quantizer that must annotate as --quantizer does, such as its JSON form"}
            .needs("quantizer")},
       {Option{"models", &request.models,
               "A folder of .pt2 programs, each of which is a cell, too; --quantizer "
               "quantizes it first"}},
       library_options(request.libraries),
       {Option{"filter", &run.filter,
               "Only cells whose name this regular expression matches, such as conv/odd"},
        Option{"quick", &run.is_quick, "Only every eighth cell of each kind"},
        Option{"seed", &request.seed, "Seed of the data"},
        Option{"timeout", &run.timeout, "Seconds that a cell may take"}.positive(),
        Option{"device_cmd", &run.device_command,
               "Runs a cell on a device: called with a folder that has program.octet and "
               "input_0.bin, ..., it writes output_0.bin, ... there"},
        Option{"json", &request.json, "Write all results as JSON"}.output(),
        Option{"junit", &request.junit, "Write all results as JUnit XML"}.output(),
        Option{"html", &request.html, "Write a page with the results"}.output()}});
}

MakeQuantizer maker_of(const std::string& name) {
  if (name.empty()) return {};
  make_quantizer(name);  // throws for a wrong name or file
  return [name] { return make_quantizer(name); };
}

std::string shell_word(const std::string& word) {
  if (std::regex_match(word, std::regex("[-\\w./,:=+@]+"))) return word;
  return fmt::format("'{}'", std::regex_replace(word, std::regex("'"), "'\\''"));
}

// The options that decide the result of a cell, apart from those that the report adds.
std::string repeated_options(const ConformanceRequest& request) {
  std::string text;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) text += fmt::format(" {} {}", option, shell_word(value));
  };
  for (const std::string& library : request.libraries) add("--library", library);
  for (const std::string& op : allowed_ops()) add("--allow-op", op);
  add("--same-as", request.same_as);
  add("--models", request.models);
  add("--device-cmd", request.run.device_command);
  if (request.run.timeout != conformance::ConformanceOptions().timeout)
    add("--timeout", fmt::format("{}", request.run.timeout));
  return text;
}

std::vector<conformance::CellResult> run_cells(const ConformanceRequest& request) {
  size_t done = 0;
  const auto show = [&](const conformance::CellResult& result) {
    if (++done % 500 == 0) log_line(fmt::format("{} cells, at {}", done, result.name));
  };
  if (request.run.quantizer.empty())
    return run_conformance(request.run, show,
                           request.models.empty() ? std::vector<conformance::Job>()
                                                  : file_jobs(request.models, request.run));
  const conformance::QuantizerOfCells quantizer = {.make = maker_of(request.run.quantizer),
                                                   .make_twin = maker_of(request.same_as)};
  return run_quantizer_conformance(quantizer, request.run, request.models, show);
}

void run(ConformanceRequest& request) {
  if (request.run.backend.empty() && request.run.quantizer.empty())
    throw Error("conformance", "",
                "--backend and --quantizer are missing; give one of them, or both");
  if (request.run.backend.empty()) request.run.backend = "reference";
  load_libraries(request.libraries);
  const conformance::ConformanceOptions& options = request.run;
  request.run.seed = static_cast<uint32_t>(request.seed);
  request.run.repeated_options = repeated_options(request);
  for (const std::string& path : {request.json, request.junit, request.html})
    if (!path.empty()) check_writable(path);
  const std::vector<conformance::CellResult> results = run_cells(request);
  if (!request.json.empty()) write_text_file(request.json, to_json_text(results, options));
  if (!request.junit.empty()) write_text_file(request.junit, to_junit_xml(results, options));
  if (!request.html.empty()) write_text_file(request.html, to_html(results, options));
  std::cout << to_text(results, options);
  const auto failed = std::count_if(results.begin(), results.end(),
                                    [](const auto& result) { return !result.passed(); });
  if (failed > 0)
    throw Error("conformance", options.quantizer.empty() ? options.backend : options.quantizer,
                fmt::format("{} of {} cells are wrong or crash; the programs and the commands that "
                            "repeat them are above",
                            failed, results.size()));
}

}  // namespace

void add_conformance_command(CLI::App& app) {
  add_command<ConformanceRequest>(app, "conformance",
                                  "Compare every op of a backend with the reference", run);
}

}  // namespace octet
