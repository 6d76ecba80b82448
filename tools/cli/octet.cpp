// Implements the `octet` command: lists its subcommands and prints errors.
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <set>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "backends/torch/torch_backend.h"
#include "core/base/closest_names.h"
#include "core/base/cpus.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/passes/pass.h"
#include "core/pt2/archive.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/signals.h"
#include "tools/cli/processes/processes.h"

namespace octet {
namespace {

constexpr AddCommand kCommands[] = {
    add_quantize_command,    add_calibrate_command,   add_qat_command,     add_tune_command,
    add_fuse_command,        add_lower_command,       add_run_command,     add_bench_command,
    add_generate_command,    add_perplexity_command,  add_compare_command, add_inspect_command,
    add_doctor_command,
#ifdef OCTET_ONNX
    add_export_command,
#endif
    add_conformance_command, add_new_backend_command,
};

// LibTorch respects OMP_NUM_THREADS and the affinity, but not the CPU quota of control groups.
void limit_threads() {
  const int threads = default_threads();
  if (std::getenv("OMP_NUM_THREADS") == nullptr && threads < at::get_num_threads())
    at::set_num_threads(threads);
}

int fail(const char* what) {
  const std::string line = printable_line(what);
  std::cout.flush();
  std::cerr << "octet: " << line << std::endl;
  return 1;
}

// An unknown command would be an extra argument to CLI11.
void check_command(const CLI::App& app, const std::string& given) {
  std::set<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.insert(command->get_name());
  if (given.empty() || given[0] == '-' || names.contains(given)) return;
  throw CLI::ValidationError(given, fmt::format("is not a command; did you mean {}?",
                                                closest_names(given, names, 1).front()));
}

}  // namespace

int run_command_line(int argc, char** argv) {
  std::set_new_handler(end_without_memory);
  CLI::App app("Octet quantizes exported PyTorch programs and runs them on oneDNN and XNNPACK.",
               "octet");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("octet ") + OCTET_VERSION);
  for (const AddCommand add : kCommands) add(app);
  app.footer(  // set last, because later commands would inherit it
      "What errors mean: tools/site/docs/errors of the source tree; tutorials: tools/site/docs.");
  for (CLI::App* command : app.get_subcommands({}))
    command->add_flag_callback(
        "--quiet", [] { set_quiet(true); }, "Print only warnings and errors on stderr");
  clean_up_on_signals(!is_one_of_several());
  register_torch_backend();
  limit_threads();
  try {
    if (argc > 1) check_command(app, argv[1]);
    app.parse(argc, argv);  // runs the subcommand's callback
    for (const std::string& name : names_without_pass())
      log_warning(fmt::format("--print-after {}: no such pass ran, these did: {}", name,
                              fmt::join(names_of_passes(), ", ")));
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  } catch (const std::bad_alloc&) {  // not from operator new
    end_without_memory();
  } catch (const c10::Error& error) {  // of LibTorch outside of a program's run
    const std::string text = error.what_without_backtrace();
    if (text.find("can't allocate memory") != std::string::npos) end_without_memory();
    return fail(("torch: " + one_line(text)).c_str());
  } catch (const std::exception& error) {
    return fail(error.what());
  }
  return 0;
}

}  // namespace octet
