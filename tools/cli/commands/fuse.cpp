// Implements octet fuse, which folds the batch norms of a float program and changes nothing else.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "core/passes/fold_conv_bn.h"
#include "core/passes/pass.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/files.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"

namespace octet {

void add_fuse_command(CLI::App& app) {
  struct Options {
    std::string model, output;
    std::vector<std::string> libraries;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("fuse", "Fold batch norms into the convolutions and linears before them");
  accept_standard_input(command->add_option("model", options->model, "The float .pt2; -: stdin"))
      ->required();
  accept_standard_output(
      command->add_option("--output", options->output, "The .pt2 to write; -: stdout"))
      ->required();
  add_library_option(*command, options->libraries);
  command->callback([options] {
    load_libraries(options->libraries);
    Graph graph = read_pt2(options->model);
    verify(graph);
    run_passes("fuse", graph, [](const std::string& line) { log_line(line); },
               {
                   {"fold_conv_bn", [&] { return fold_conv_bn(graph); }},
               });
    write_pt2(graph, options->output);
  });
}

}  // namespace octet
