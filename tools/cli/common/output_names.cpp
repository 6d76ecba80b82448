#include "tools/cli/common/output_names.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/base/error.h"
#include "core/base/output_file.h"

namespace octet {
namespace {

// Of all commands. What other options and arguments name is read.
constexpr std::string_view kOutputs[] = {"--output",           "--outputs", "--report",
                                         "--dump-annotations", "--onnx",    "--save-config"};

struct NamedFile {
  std::string option, path;
  bool is_output = false;
};

bool is_output(const CLI::App& command, const std::string& option) {
  return std::find(std::begin(kOutputs), std::end(kOutputs), option) != std::end(kOutputs) ||
         (option == "--state" && command.get_name() == "calibrate");
}

std::vector<NamedFile> named_files(const CLI::App& command) {
  std::vector<NamedFile> files;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    for (const std::string& value : option->results()) {
      const bool written = is_output(command, name);
      files.push_back({name, value, written});
      if (name == "--onnx") files.push_back({name, value + ".data", written});
      if (written || value.find(',') == std::string::npos) continue;
      for (const std::string& part : CLI::detail::split(value, ','))
        files.push_back({name, part, false});
    }
  }
  return files;
}

}  // namespace

void check_outputs(const CLI::App& command) {
  const std::vector<NamedFile> files = named_files(command);
  for (const NamedFile& output : files) {
    if (!output.is_output) continue;
    for (const NamedFile& other : files)
      if (&other != &output && !other.path.empty() && is_same_file(output.path, other.path))
        throw Error(command.get_name(), output.path,
                    fmt::format("is named by {} and by {}, want a file of its own for each output; "
                                "name another one",
                                other.option, output.option));
  }
}

}  // namespace octet
