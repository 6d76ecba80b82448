// A Program compiled for fixed sizes: its segments, the memory between them, and the binding of the
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
  // Plans the memory and compiles every segment. `program` has no symbols, has passed
  // check_runnable, and must outlive this object. Throws Error when a backend is missing from this
  // build, has another version, or refuses a segment.
  CompiledProgram(const Program& program, const SessionOptions& options);

  // Addresses by position in Program::inputs and ::outputs. `states` and `next`: by position in
  // Program::states; they must not overlap. Throws Error on a wrong count or a null address.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           std::span<const Tensor> states, std::span<const Tensor> next);

  const Program& program() const { return program_; }
  // The sizes of an output after a run, by position in Program::outputs. Sizes that only the run
  // decides are at most those of the program.
  std::vector<int64_t> output_shape(size_t position) const;
  size_t arena_bytes() const { return arena_->size; }
  // In execution order, with notes; a backend that reports no kernels has one entry per segment.
  std::vector<KernelReport> kernels() const;
  void time_kernels(bool on);
  // One line per cause, with the first op and the number of others: "conv1 and 3 more: computed in
  // floats, ...".
  std::vector<std::string> warnings() const;
  // One warning per cause, across segments.
  std::vector<Warning> merged_warnings() const;

 private:
  struct Step {
    std::unique_ptr<CompiledSegment> segment;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    double seconds = 0;  // of the fastest timed run
  };
  // An output or next state that no segment writes into the caller's memory: an input, a constant,
  // or a value that was already written to another output.
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
  // by tensor index: arena views, and constants that are outputs; inputs, outputs and states are
  // views of memory that each run provides
  std::vector<Tensor> tensors_;
  std::shared_ptr<Storage> arena_;
  std::vector<bool> is_copied_;  // by position in Program::results()
  std::vector<CopiedOutput> copied_;
  bool is_timed_ = false;
};

// Throws Error unless this build has every segment's backend, in the version that the program was
// lowered for.
void check_backends(const Program& program);
void check_count(const char* what, size_t got, size_t want);

}  // namespace octet
