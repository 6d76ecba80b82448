// Loads nothing, decides nothing: runs the segments of a Program one after the other. Free of torch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lowering/backend.h"
#include "lowering/program.h"

namespace octet {

struct SessionOptions {
  int threads = 1;          // at least 1
  size_t memory_limit = 0;  // bytes that inputs, outputs and intermediates may take at once; 0: what the machine has
};

class Session {
 public:
  // Checks every op against its shapes and attributes, plans the memory, then compiles every segment. Throws Error when the program contradicts
  // itself or needs more memory than allowed (before allocating any), when a backend is not in this build, or when the library that it was lowered
  // for has another major or minor version.
  explicit Session(Program program, int threads = 1);
  Session(Program program, const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // One tensor per entry of Program::inputs (what stands for -1 is not read and may be undefined); returns new tensors in the order of
  // Program::outputs. Throws Error on a wrong count, dtype or shape. Not thread-safe: one session per concurrent run.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  // The same on plain memory: row-major elements of the dtypes and shapes in the program, aligned to their element size; outputs are distinct and
  // overlap no input. What stands for -1 may be null. Throws Error on a wrong count or a null address.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);

  const Program& program() const;
  // Bytes of the arena that holds what flows between segments.
  size_t arena_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The most bytes that inputs, outputs and intermediates of a verified program take at one time, if each lives from the op that makes it to its last
// reader. Backends that fuse ops need less, copies in another memory order come on top.
size_t peak_bytes(const Program& program);

}  // namespace octet
