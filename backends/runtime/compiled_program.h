// A Program at fixed sizes, compiled: its segments, the memory between them, and what binds the
// caller's memory for a run. Used by Session only.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/runtime/control_segment.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

class CompiledProgram {
 public:
  // Plans the memory and compiles every segment. `program` has no symbols, is checked
  // (check_runnable), and stays as long as this does. Throws Error when a backend is not in this
  // build, is of another version, or refuses a segment.
  CompiledProgram(const Program& program, const SessionOptions& options);

  // Addresses by position in Program::inputs and ::outputs; `states` and `next`: by position in
  // Program::states, apart from each other. Throws Error on a wrong count or a null address.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<const Tensor> states, std::span<const Tensor> next);

  const Program& program() const { return program_; }
  // Of the output at that position in Program::outputs, after a run: its sizes, where the run alone
  // decides them at most those of the program.
  std::vector<int64_t> output_shape(size_t position) const;
  size_t arena_bytes() const { return arena_->size; }
  // In the order of the run; a backend that does not tell has one entry for each of its segments.
  // With their notes.
  std::vector<KernelReport> kernels() const;
  void time_kernels(bool on);
  // A line for each cause, with the first of the ops and how many there are: "conv1 and 3 more:
  // computed in floats, ...".
  std::vector<std::string> warnings() const;
  // One for each cause, whatever segments it concerns.
  std::vector<Warning> merged_warnings() const;

 private:
  struct Step {
    std::unique_ptr<CompiledSegment> segment;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    double seconds = 0;  // in the fastest timed run
  };
  // An output that no segment writes into the caller's memory: an input, a constant, or one that
  // was given already. Likewise of what a state becomes.
  struct CopiedOutput {
    size_t tensor;
    size_t position;  // in Program::results()
  };

  void plan_memory();
  void plan_outputs();
  void compile(const SessionOptions& options);
  void bind(int tensor, const void* address);
  void bind_outputs(std::span<void* const> outputs, std::span<const Tensor> next);
  void add_notes(std::vector<KernelReport>& kernels) const;

  const Program& program_;
  CompiledBodies bodies_;
  std::vector<Step> steps_;
  // by tensor index: arena views and constants that are outputs; inputs, outputs and states are
  // views of memory that is given for each run
  std::vector<Tensor> tensors_;
  std::shared_ptr<Storage> arena_;
  std::vector<bool> is_copied_;  // by position in Program::results()
  std::vector<CopiedOutput> copied_;
  bool is_timed_ = false;
};

// Throws Error unless every segment's backend is in this build and of the version that the program
// was lowered for.
void check_backends(const Program& program);
void check_count(const char* what, size_t got, size_t want);

}  // namespace octet
