#include "tools/cli/commands/command.h"

#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/output_file.h"
#include "core/passes/pass.h"

namespace octet {

void add_print_after_option(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--print-after",
          [](const std::vector<std::string>& names) {
            for (const std::string& name : names) print_after(name);
          },
          "Print the program behind these passes on stderr; OCTET_DEBUG=passes in the environment "
          "prints it behind each, and verifies it")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void write_text_file(const std::string& path, const std::string& text) {
  write_file(path, text, "output");
}

void check_writable(const std::string& path) { check_writable(path, "output"); }

bool has_suffix(std::string_view path, std::string_view suffix) {
  return path.size() >= suffix.size() && path.ends_with(suffix);
}

}  // namespace octet
