// octet run: one call of a program, .pt2 through the interpreter, .octet through its backends.
#include <CLI/CLI.hpp>

#include "core/base/usable_cpus.h"
#include "core/pt2/tensor_file.h"
#include "tools/commands/command.h"
#include "tools/commands/runnable.h"
#include "tools/common/library.h"
#include "tools/common/standard_streams.h"

namespace octet {

void add_run_command(CLI::App& app) {
  struct Options {
    std::string cache, file, inputs, outputs;
    int threads = 0;
    std::vector<std::string> libraries;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("run", "Run a .pt2 (interpreted op by op) or an .octet program once");
  command->add_option("file", options->file, "The program, .pt2 or .octet")->required();
  accept_standard_input(
      command->add_option("--inputs", options->inputs, "torch.save of a tuple of inputs; -: stdin"))
      ->required();
  accept_standard_output(command->add_option("--outputs", options->outputs,
                                             "Where the tuple of outputs goes; -: stdout"))
      ->required();
  command
      ->add_option("--threads", options->threads,
                   "Threads; all CPUs that this process may use by default")
      ->check(CLI::Range(1, 1024));
  command->add_option(
      "--cache", options->cache,
      "A folder where packed weights are kept for the next start (.octet on oneDNN)");
  add_library_option(*command, options->libraries);
  command->callback([options] {
    load_libraries(options->libraries);
    if (options->threads == 0) options->threads = usable_cpus();
    const std::unique_ptr<Runnable> program =
        load_runnable(options->file, options->threads, options->cache);
    write_outputs(options->outputs, program->run(read_inputs(options->inputs)));
  });
}

}  // namespace octet
