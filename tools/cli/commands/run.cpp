// Implements octet run, which calls a program once or several times: a .pt2 with the interpreter,
// an .octet with its backends.
#include "core/base/cpus.h"
#include "core/pt2/tensor_file.h"
#include "tools/cli/commands/command.h"
#include "tools/cli/commands/runnable.h"
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

struct RunRequest {
  std::string file, inputs, outputs;
  SessionOptions session = {.threads = 0};
  bool steps = false, resets = false;
  std::vector<std::string> libraries;
};

Options options_of(RunRequest& request) {
  return joined({
      {
          program_option(request.file),
          Option{"inputs", &request.inputs,
                 "torch.save of a tuple of inputs, or an .npz or .npy; -: stdin"}
              .required()
              .from_stdin(),
          Option{"steps", &request.steps,
                 "--inputs is a list of such tuples, run one after another: caches, counters and "
                 "other buffers that the program writes keep their values from step to step; "
                 "--outputs is a tuple of tuples"},
          Option{"reset_states", &request.resets,
                 "Start each step with the buffers as stored in the file"}
              .needs("steps"),
          Option{"outputs", &request.outputs, "The file for the tuple of outputs; -: stdout"}
              .required()
              .to_stdout(),
      },
      session_options(request.session),
      library_options(request.libraries),
  });
}

void run(RunRequest& request) {
  load_libraries(request.libraries);
  int& threads = request.session.threads;
  if (threads == 0) threads = default_threads();
  const std::unique_ptr<Runnable> program = load_runnable(request.file, request.session);
  if (request.steps)
    write_steps(request.outputs, run_steps(*program, request.inputs, request.resets));
  else
    write_outputs(request.outputs,
                  program->run(read_inputs(request.inputs, program->input_names())));
}

}  // namespace

void add_run_command(CLI::App& app) {
  add_command<RunRequest>(app, "run", "Run a .pt2 (interpreted op by op) or an .octet program",
                          run);
}

}  // namespace octet
