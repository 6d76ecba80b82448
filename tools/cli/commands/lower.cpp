// Implements octet lower, which lowers a q/dq program to an .octet program for one backend.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "lowering/lower.h"
#include "lowering/program/artifact.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/files.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/lowered_program.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/options.h"

namespace octet {
void add_lower_command(CLI::App& app) {
  struct Options {
    std::string model, backend, output, fallback = "reference";
    bool explain = false;
    std::vector<std::string> libraries;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("lower", "Turn a quantized .pt2 into an .octet program for one backend");
  accept_standard_input(
      command->add_option(
          "model", options->model,
          "A .pt2 with quantize/dequantize ops, from `octet quantize` or torchao; -: stdin"))
      ->required();
  command
      ->add_option(
          "--backend", options->backend,
          fmt::format("One of {}, or one from a --library", fmt::join(backend_names(), ", ")))
      ->required();
  accept_standard_output(
      command->add_option("--output", options->output, "The .octet file to write; -: stdout"))
      ->required();
  command
      ->add_option("--fallback", options->fallback,
                   "What runs the ops that the backend refuses: reference; torch (reference, and "
                   "LibTorch for ops that it does not have: the file then needs LibTorch to run); "
                   "or none (they are then an error)")
      ->check(CLI::IsMember({"reference", "torch", "none"}))
      ->capture_default_str();
  command->add_flag("--explain", options->explain,
                    "Print every op, where it runs, and why not on the backend");
  add_print_after_option(*command);
  add_library_option(*command, options->libraries);
  command->callback([options] {
    load_libraries(options->libraries);
    const std::vector<std::string> known = backend_names();
    if (options->libraries.empty() &&
        std::find(known.begin(), known.end(), options->backend) == known.end())
      throw CLI::ValidationError(
          "--backend", fmt::format("{} not in {{{}}}", options->backend, fmt::join(known, ",")));
    if (options->explain) check_free_standard_output("--explain");
    const std::unique_ptr<BackendSupport> support = make_support(options->backend);
    Graph graph = read_pt2(options->model);
    verify(graph);
    LowerOptions lower_options;
    lower_options.fallback = options->fallback == "none"    ? Fallback::kNone
                             : options->fallback == "torch" ? Fallback::kTorch
                                                            : Fallback::kReference;
    Report report;
    const Program program = lower(graph, *support, lower_options, report);
    save_program(program, options->output);
    if (options->explain) print_text(explain(program));
    for (const std::string& line : slow_products(program)) log_warning(line);
    for (const std::string& note : report.notes()) log_line(note);
  });
}

}  // namespace octet
