// Implements octet run, which calls a program once or several times: a .pt2 with the interpreter,
// an .octet with its backends.
#include <CLI/CLI.hpp>

#include "core/base/cpus.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/commands/runnable.h"
#include "tools/cli/common/files.h"
#include "tools/cli/common/library.h"

namespace octet {
namespace {

// Runs in order, so that the states of the program carry over from step to step.
std::vector<std::vector<c10::IValue>> run_steps(Runnable& program, const std::string& inputs,
                                                bool resets) {
  std::vector<std::vector<c10::IValue>> outputs;
  for (BatchReader batches(inputs); !batches.done();) {
    if (resets) program.reset_states();
    outputs.push_back(program.run(batches.next()));
  }
  return outputs;
}

}  // namespace

void add_run_command(CLI::App& app) {
  struct Options {
    std::string file, inputs, outputs;
    SessionOptions session = {.threads = 0};
    bool steps = false, resets = false;
    std::vector<std::string> libraries;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("run", "Run a .pt2 (interpreted op by op) or an .octet program");
  command->add_option("file", options->file, "The program, .pt2 or .octet")->required();
  accept_standard_input(
      command->add_option("--inputs", options->inputs, "torch.save of a tuple of inputs; -: stdin"))
      ->required();
  CLI::Option* steps =
      command->add_flag("--steps", options->steps,
                        "--inputs is a list of such tuples, run one after another: caches, "
                        "counters and other buffers that the program writes keep their values from "
                        "step to step; --outputs is a tuple of tuples");
  command
      ->add_flag("--reset-states", options->resets,
                 "Start each step with the buffers as stored in the file")
      ->needs(steps);
  accept_standard_output(command->add_option("--outputs", options->outputs,
                                             "The file for the tuple of outputs; -: stdout"))
      ->required();
  command
      ->add_option(
          "--threads", options->session.threads,
          "Threads; by default all CPUs that this process may use, at most OMP_NUM_THREADS")
      ->check(CLI::Range(1, 1024));
  add_session_options(*command, options->session);
  add_library_option(*command, options->libraries);
  command->callback([options] {
    load_libraries(options->libraries);
    int& threads = options->session.threads;
    if (threads == 0) threads = default_threads();
    const std::unique_ptr<Runnable> program = load_runnable(options->file, options->session);
    if (options->steps)
      write_steps(options->outputs, run_steps(*program, options->inputs, options->resets));
    else
      write_outputs(options->outputs, program->run(read_inputs(options->inputs)));
  });
}

}  // namespace octet
