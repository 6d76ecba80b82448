// Implements octet fuse, which folds the batch norms of a float program and changes nothing else.
#include "core/passes/fold_conv_bn.h"
#include "core/passes/pass.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "core/pt2/writer.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/common/library.h"
#include "tools/cli/common/messages.h"

namespace octet {
namespace {

struct FuseRequest {
  std::string model, output;
  std::vector<std::string> libraries;
};

Options options_of(FuseRequest& request) {
  return joined({
      {Option{"model", &request.model, "The float .pt2; -: stdin"}
           .positional()
           .required()
           .from_stdin(),
       Option{"output", &request.output, "The .pt2 to write; -: stdout"}.required().to_stdout()},
      library_options(request.libraries),
  });
}

void fuse(FuseRequest& request) {
  load_libraries(request.libraries);
  Graph graph = read_pt2(request.model);
  verify(graph);
  run_passes("fuse", graph, [](const std::string& line) { log_line(line); },
             {
                 {"fold_conv_bn", [&] { return fold_conv_bn(graph); }},
             });
  write_pt2(graph, request.output);
}

}  // namespace

void add_fuse_command(CLI::App& app) {
  add_command<FuseRequest>(app, "fuse",
                           "Fold batch norms into the convolutions and linears before them", fuse);
}

}  // namespace octet
