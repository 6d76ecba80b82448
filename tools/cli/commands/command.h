// Declares the subcommands of `octet` and the functions that they share. Each subcommand has a file
// and adds itself to the CLI11 app; octet.cpp lists them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tools/cli/common/options.h"

namespace octet {

class Processes;

// The main function of `octet`: returns the exit status, after messages on stderr.
int run_command_line(int argc, char** argv);

// Adds the subcommand to `app`; its callback does the work and throws Error. A build without a
// feature does not add its options, so that CLI11 reports a usage error.
using AddCommand = void (*)(CLI::App& app);

void add_quantize_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_qat_command(CLI::App& app);
void add_tune_command(CLI::App& app);
void add_fuse_command(CLI::App& app);
void add_lower_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_generate_command(CLI::App& app);
void add_perplexity_command(CLI::App& app);
void add_compare_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_export_command(CLI::App& app);
void add_new_backend_command(CLI::App& app);
void add_conformance_command(CLI::App& app);

// Adds a subcommand that sets the options and calls `run`.
CLI::App* add_command(CLI::App& app, const char* name, const char* help, const Options& options,
                      std::function<void()> run);

// As above, with the options of a record.
template <typename Request>
CLI::App* add_command(CLI::App& app, const char* name, const char* help, void (*run)(Request&)) {
  const auto request = std::make_shared<Request>();
  return add_command(app, name, help, options_of(*request), [=] { run(*request); });
}

// Runs `work` in each process that mpirun started; all but the first print nothing.
void in_processes(const std::function<void(Processes&)>& work);

// Writes the file whole or not at all (core/base/output_file.h); throws Error("output", path, ...).
void write_text_file(const std::string& path, const std::string& text);
// Throws Error("output", path, ...) if the file could not be written.
void check_writable(const std::string& path);
bool has_suffix(std::string_view path, std::string_view suffix);

}  // namespace octet
