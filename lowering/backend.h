// The two halves of a backend. `BackendSupport` decides at lowering time; `Backend` runs at run time. Neither needs torch.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/report.h"
#include "lowering/program.h"

namespace octet {

// What a backend accepts. Asked once for each op, in order; an accepted op joins a segment of that backend, any other goes to the
// fallback with the verdict's reason.
class BackendSupport {
 public:
  virtual ~BackendSupport() = default;
  virtual std::string name() const = 0;
  // Library name -> version as linked, recorded in the artifact. Throws Error when header and library disagree.
  virtual std::map<std::string, std::string> versions() const = 0;
  // Must prove acceptance against the library itself where it can (create the primitive or operator).
  virtual Verdict accepts(const Program& program, const ProgramOp& op) const = 0;
};

// One compiled segment. Not thread-safe: one instance per concurrent run.
class CompiledSegment {
 public:
  virtual ~CompiledSegment() = default;
  // inputs and outputs in the order of Segment::inputs and ::outputs, contiguous, of the right dtype and shape; outputs are preallocated.
  virtual void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::map<std::string, std::string> versions() const = 0;
  // threads: at least 1.
  virtual std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment, int threads) const = 0;
};

}  // namespace octet
