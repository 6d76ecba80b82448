// A program that can be called, whatever its file format: what `octet run` and `octet bench` work
// on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "backends/runtime/session.h"
#include "lowering/program/backend.h"

namespace CLI {
class App;
}

namespace octet {

class Runnable {
 public:
  virtual ~Runnable() = default;
  // Flattened user inputs in, flattened user outputs out.
  virtual std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) = 0;
  // What runs have changed (buffers, states) becomes what the file says.
  virtual void reset_states() = 0;
  // Inputs of the right types and shapes: integers 0, floats from a fixed random stream.
  virtual std::vector<c10::IValue> example_inputs() const = 0;
  // How many threads the next run uses: as many as are wanted, or fewer
  // (backends/runtime/thread_choice.h).
  virtual int threads() const = 0;
  // Another one of the same program, for another thread. A lowered program's weights are shared.
  virtual std::unique_ptr<Runnable> duplicate() const = 0;
  // Runs some times more and tells for each call: the kernel, its layout, its time, and what it
  // does less well than it could. Throws Error for a program that is interpreted.
  virtual std::vector<KernelReport> explain(const std::vector<c10::IValue>& inputs) = 0;
};

// By suffix: .pt2 or .octet. Of a .pt2 the options but `threads` say nothing; Error for a limit.
std::unique_ptr<Runnable> load_runnable(const std::string& path, const SessionOptions& options);

// --cache, --memory-limit and --loop-limit; `options` lives as long as the command.
void add_session_options(CLI::App& command, SessionOptions& options);

}  // namespace octet
