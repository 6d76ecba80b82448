// Compiles a Program and runs its segments in order. Does not depend on torch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/runtime/session_options.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

class Session {
 public:
  // Checks every op against its shapes and attributes, plans the memory, then compiles every
  // segment. Throws Error when the program contradicts itself or needs more memory than allowed
  // (before it allocates any), when a backend is not in this build, or when a library differs in
  // major or minor version from the one that the program was lowered for. A program with open sizes
  // (Program::symbols) is checked at the sizes that it was lowered at, and compiled when run() or
  // bind() gives sizes that are not cached.
  explicit Session(Program program, int threads = 1);
  Session(Program program, const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Creates another session of the same program with the same options, for another thread.
  // Constants are shared, and so are packed weights: on oneDNN all, on XNNPACK those of weight-only
  // linears. Its states (Program::states) are separate and start at their initial values
  // (copy_states). Not while this session is in run() or bind().
  Session duplicate() const;

  // Takes one tensor per entry of Program::inputs (entries of -1 are not read and may be undefined)
  // and returns new tensors in the order of Program::outputs. Throws Error on a wrong count, dtype
  // or shape. Not thread-safe: use one session per concurrent run.
  //
  // A run reads the states that the previous run left, whatever sizes are bound, and updates them.
  // If it throws, the states are unchanged.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  // Runs on plain memory: row-major elements of the dtypes and shapes in bound_program(), aligned
  // to their element size. Outputs are distinct and overlap no input. Entries of -1 may be null.
  // Any nonzero byte of a bool is true. Throws Error on a wrong count or a null address.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);

  // Sets the sizes for the following runs: for each input the address of its sizes, as many as its
  // rank; entries of -1 are not read. Allocates nothing when the sizes do not change. Throws Error
  // when the program does not accept the sizes; the previous sizes may then be replaced by those
  // that the program was lowered at.
  void bind(std::span<const int64_t* const> shapes);

  // The sizes of an output after a run. They equal those of bound_program(), unless only the run
  // decides a size (such as the number of elements that a mask selects): then bound_program() has
  // the maximum, and the output is the first elements of its memory, row-major.
  std::vector<int64_t> output_shape(size_t output) const;

  // Resets the states to their initial values.
  void reset_states();
  // Copies the values of another session's states: the next run continues what that session has
  // run so far. Throws Error when the states differ in number, dtype or shape. Not while either is
  // in run().
  void copy_states(const Session& from);
  // Rolls the cache of a language model back: keeps what is at positions 0 to count - 1, and resets
  // the rest, as if the model had not run at later positions. Throws Error, and changes nothing, if
  // count is negative or exceeds the positions of the cache, if the program has no cache, or if a
  // state that an op reads has no row for each position (the cache of a sliding window; keep a copy
  // of that with copy_states). A state has one if runs write it by index_put, only at rows whose
  // numbers are the elements of an input, the same for all states, or these plus a constant that
  // begins at 0. Not while this session is in run().
  void truncate_states(int64_t count);

  // The program as given, with open sizes at the values that it was lowered at.
  const Program& program() const;
  // The program at the sizes of the next run on plain memory.
  const Program& bound_program() const;
  // Bytes of the arena for values between segments at these sizes; 0 when they are not compiled.
  size_t arena_bytes() const;
  // The number of sets of sizes that are compiled.
  size_t compiled_count() const;

  // The number of threads of the next run: the option's, or one (thread_choice.h).
  int threads() const;
  // The kernels that the next run on plain memory calls, in order; empty when its sizes are not
  // compiled.
  std::vector<KernelReport> kernels() const;
  // Why the program runs slower on this machine, one line per cause: for the sizes of the next run
  // (none when they are not compiled), for more threads than CPUs, and for problems with the cache.
  std::vector<std::string> warnings() const;
  // Turns timing of each kernel on or off for runs at these sizes, and discards earlier times.
  void time_kernels(bool on);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The peak bytes of inputs, outputs, states (twice) and intermediates of a verified program. A
// tensor counts from the op that makes it to its last reader; each segment and each body has
// separate memory. Additional copies of constants count, and so do buffers inside a reference
// kernel. Backends that fuse ops need less; copies in another memory order add to it.
size_t peak_bytes(const Program& program);

}  // namespace octet
