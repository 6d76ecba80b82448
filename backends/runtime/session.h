// Compiles a Program and runs its segments one after the other. Free of torch.
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
  // (before allocating any), when a backend is not in this build, or when the library that it was
  // lowered for has another major or minor version. A program with open sizes (Program::symbols) is
  // checked at those that it was lowered at, and compiled when a run or bind() gives sizes that no
  // cached compilation has.
  explicit Session(Program program, int threads = 1);
  Session(Program program, const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Another session of the same program with the same options, for another thread: constants are
  // shared, and on oneDNN packed weights, too. Its states (Program::states) are its own and start
  // anew. Not while this one is in run() or bind().
  Session duplicate() const;

  // Each run reads the states as the one before left them, whatever sizes are bound, and leaves
  // them changed; one that throws leaves them as they were.
  //
  // One tensor per entry of Program::inputs (what stands for -1 is not read and may be undefined);
  // returns new tensors in the order of Program::outputs. Throws Error on a wrong count, dtype or
  // shape. Not thread-safe: one session per concurrent run.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  // The same on plain memory: row-major elements of the dtypes and shapes in bound_program(),
  // aligned to their element size; outputs are distinct and overlap no input. What stands for -1
  // may be null. Of bools each byte but 0 is true. Throws Error on a wrong count or a null address.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);

  // Sizes for the runs that follow: for each input the address of its sizes, as many as the program
  // says; what stands for -1 is not read. Allocates nothing when they are those of before. Throws
  // Error when the program does not take them; then the sizes of before may be gone, and the sizes
  // that it was lowered at hold.
  void bind(std::span<const int64_t* const> shapes);

  // The sizes of an output after a run. Those of bound_program(), or with a size that the run alone
  // decided (how many elements a mask selects) as many or fewer: the first elements of its memory
  // are the output then, row-major, and bound_program() has the greatest that it can be.
  std::vector<int64_t> output_shape(size_t output) const;

  // The states become what they were before the first run.
  void reset_states();

  // As given: open sizes stand at those that it was lowered at.
  const Program& program() const;
  // At the sizes of the next run on plain memory.
  const Program& bound_program() const;
  // Bytes of the arena that holds what flows between segments at these sizes; 0 when they are not
  // compiled yet.
  size_t arena_bytes() const;
  // How many sets of sizes are compiled now.
  size_t compiled_count() const;

  // How many threads the next run uses: those of the options, or one (thread_choice.h).
  int threads() const;
  // What the next run on plain memory calls, in order; empty when its sizes are not compiled yet.
  std::vector<KernelReport> kernels() const;
  // What this machine does less well than the program was made for, a line for each cause: of the
  // sizes of the next run, none when they are not compiled yet. And more threads than CPUs, and
  // what was wrong with the cache.
  std::vector<std::string> warnings() const;
  // From now on runs at these sizes are timed kernel by kernel, or no longer; what was counted is
  // forgotten.
  void time_kernels(bool on);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The most bytes that inputs, outputs, states (twice) and intermediates of a verified program take
// at one time: those between segments from the one that makes them to the last reader; those inside
// of one likewise, but each segment and each body has memory of its own. Copies of a constant count
// beyond the first, and so does what one kernel of the reference computes with. Backends that fuse
// ops need less, copies in another memory order come on top.
size_t peak_bytes(const Program& program);

}  // namespace octet
