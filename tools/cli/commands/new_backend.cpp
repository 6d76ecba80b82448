// Implements octet new-backend, which copies tools/example_backend under another name.
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include <fmt/format.h>

#include "core/base/error.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/messages.h"
#include "tools/cli/common/options.h"

namespace octet {
namespace {

namespace fs = std::filesystem;

// Installed beside the command; in a build folder, a link to the source.
fs::path example_folder() {
  const fs::path command = fs::read_symlink("/proc/self/exe");
  fs::path folder = command.parent_path() / OCTET_DATA_FOLDER / "example_backend";
  if (!fs::is_directory(folder))
    throw Error("new-backend", folder.lexically_normal().string(),
                "the example is not there; use the command of a source tree or of an installed "
                "Octet, whose headers a backend needs");
  return folder;
}

// my_npu -> MyNpu
std::string title_of(const std::string& name) {
  std::string title;
  bool starts_word = true;
  for (char c : name) {
    if (c != '_')
      title += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts_word = c == '_';
  }
  return title;
}

struct NewBackendRequest {
  std::string name, folder;
};

Options options_of(NewBackendRequest& request) {
  return {Option{"name", &request.name,
                 "The namespace of its ops, the prefix of its files, and its name for --quantizer "
                 "and --backend"}
              .positional()
              .required(),
          Option{"folder", &request.folder, "The folder to make"}.positional().required()};
}

void copy_example(NewBackendRequest& request) {
  const std::string& name = request.name;
  const fs::path folder = request.folder;
  if (!std::regex_match(name, std::regex("[a-z][a-z0-9_]*")))
    throw Error(
        "new-backend", fmt::format("\"{}\"", name),
        "not a valid name, want lower case letters, digits and underscores, such as my_npu");
  if (fs::exists(folder))
    throw Error("new-backend", folder.string(), "exists already; name a new folder");
  const fs::path example = example_folder();
  std::error_code failure;
  if (!fs::create_directories(folder, failure))
    throw Error("new-backend", folder.string(), "cannot be made: " + failure.message());
  const std::regex lower("acme"), upper("Acme");
  for (const fs::directory_entry& entry : fs::directory_iterator(example)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    write_text_file(
        folder / std::regex_replace(entry.path().filename().string(), lower, name),
        std::regex_replace(std::regex_replace(text, lower, name), upper, title_of(name)));
  }
  log_line(folder.string() + ": README.md there says how to build and test it");
}

}  // namespace

void add_new_backend_command(CLI::App& app) {
  add_command<NewBackendRequest>(app, "new-backend",
                                 "Start a project for a quantizer and a backend", copy_example);
}

}  // namespace octet
