// octet lower: a q/dq program becomes an .octet program for one backend.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "backends/registry.h"
#include "core/error.h"
#include "core/pt2_reader.h"
#include "core/verify.h"
#include "lowering/artifact.h"
#include "lowering/lower.h"
#include "tools/command.h"
#include "tools/library.h"
#include "tools/messages.h"

namespace octet {

void add_lower_command(CLI::App& app) {
  struct Options {
    std::string model, backend, output, fallback = "reference";
    bool explain = false;
    std::vector<std::string> libraries;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("lower", "Turn a quantized .pt2 into an .octet program for one backend");
  command->add_option("model", options->model, "A .pt2 with quantize/dequantize ops, from `octet quantize` or torchao")->required();
  command->add_option("--backend", options->backend, "One of " + fmt::format("{}", fmt::join(backend_names(), ", ")))
      ->required()
      ->check(CLI::IsMember(backend_names()));
  command->add_option("--output", options->output, "The .octet file to write")->required();
  command->add_option("--fallback", options->fallback, "What runs the ops that the backend refuses: reference, or none (then they are an error)")
      ->check(CLI::IsMember({"reference", "none"}))
      ->capture_default_str();
  command->add_flag("--explain", options->explain, "Print every op, where it runs, and why not on the backend");
  add_library_option(*command, options->libraries);
  command->callback([options] {
    load_libraries(options->libraries);
    Graph graph = read_pt2(options->model);
    verify(graph);
    const std::unique_ptr<BackendSupport> support = make_support(options->backend);
    LowerOptions lower_options;
    lower_options.fallback = options->fallback == "none" ? Fallback::kNone : Fallback::kReference;
    Report report;
    const Program program = lower(graph, *support, lower_options, report);
    save_program(program, options->output);
    if (options->explain) print_text(explain(program));
    for (const std::string& note : report.notes()) log_line(note);
  });
}

}  // namespace octet
