// Runs a program for `octet run` and `octet bench`, whatever its file format.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "backends/runtime/session.h"
#include "lowering/program/backend.h"
#include "tools/cli/common/options.h"

namespace octet {

class Runnable {
 public:
  virtual ~Runnable() = default;
  // Takes the flattened user inputs, of which literals of the export (None, a number) may be left
  // out, and returns the flattened user outputs.
  virtual std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) = 0;
  // The names of the inputs that are not literals; "": not known.
  virtual std::vector<std::string> input_names() const = 0;
  // Resets what runs changed (buffers, states) to the values in the file.
  virtual void reset_states() = 0;
  // Inputs of the right types and shapes: integers 0, floats from a fixed random stream.
  virtual std::vector<c10::IValue> example_inputs() const = 0;
  // The number of threads of the next run, at most as many as requested
  // (backends/runtime/thread_choice.h).
  virtual int threads() const = 0;
  // Another instance of the program, for another thread. Lowered programs share their weights.
  virtual std::unique_ptr<Runnable> duplicate() const = 0;
  // Bytes of the constants that a run at the last sizes reads, as the file stores them; 0: not
  // known.
  virtual size_t constant_bytes() const = 0;
  // Runs the program a few times and describes each kernel call: kernel, layout, time, and why it
  // is slower than possible. Throws Error for a program that is interpreted.
  virtual std::vector<KernelReport> explain(const std::vector<c10::IValue>& inputs) = 0;
};

// Loads a .pt2 or .octet file, by its suffix. For a .pt2, options but `threads` are an Error.
std::unique_ptr<Runnable> load_runnable(const std::string& path, const SessionOptions& options);

// The argument FILE of commands that load a program.
Option program_option(std::string& file);
// An option for each option of a session that users set: --threads, --memory-limit, ...
Options session_options(SessionOptions& session);

}  // namespace octet
