#include "tools/cli/commands/command.h"

#include <utility>

#include <CLI/CLI.hpp>

#include "core/base/output_file.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/processes/processes.h"

namespace octet {

CLI::App* add_command(CLI::App& app, const char* name, const char* help, const Options& options,
                      std::function<void()> run) {
  CLI::App* command = app.add_subcommand(name, help);
  add_options(*command, options);
  command->callback([name, options, run = std::move(run)] {
    check_outputs(name, options);
    run();
  });
  return command;
}

void in_processes(const std::function<void(Processes&)>& work) {
  Processes processes;
  if (processes.rank() != 0) set_silent();
  processes.gather([&] {
    work(processes);
    return std::string();
  });
}

void write_text_file(const std::string& path, const std::string& text) {
  write_file(path, text, "output");
}

void check_writable(const std::string& path) { check_writable(path, "output"); }

bool has_suffix(std::string_view path, std::string_view suffix) {
  return path.size() >= suffix.size() && path.ends_with(suffix);
}

}  // namespace octet
