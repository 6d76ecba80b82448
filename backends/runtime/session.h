// Loads nothing, decides nothing: runs the segments of a Program one after the other. Free of torch.
#pragma once

#include <memory>
#include <vector>

#include "lowering/backend.h"
#include "lowering/program.h"

namespace octet {

class Session {
 public:
  // Compiles every segment. threads: at least 1. Throws Error when a backend is not in this build, or when the library that it was lowered
  // for has another major or minor version.
  explicit Session(Program program, int threads = 1);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // One tensor per entry of Program::inputs (what stands for -1 is not read and may be undefined); returns new tensors in the order of
  // Program::outputs. Throws Error on a wrong count, dtype or shape. Not thread-safe: one session per concurrent run.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  const Program& program() const;
  // Bytes of the arena that holds what flows between segments.
  size_t arena_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace octet
