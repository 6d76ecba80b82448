// The interfaces that a backend implements: BackendSupport says at lowering time which ops it runs,
// and Backend compiles and runs segments of them. Neither needs LibTorch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet {

// Decides which ops a backend runs. Asked once for each op, in order; an accepted op joins a
// segment of the backend, any other goes to the fallback with the verdict's reason.
class BackendSupport {
 public:
  virtual ~BackendSupport() = default;
  virtual std::string name() const = 0;
  // Library name -> version as linked, recorded in the artifact. Throws Error when header and
  // library disagree.
  virtual std::map<std::string, std::string> versions() const = 0;
  // Must prove acceptance against the library itself where it can (create the primitive or
  // operator).
  virtual Verdict accepts(const Program& program, const ProgramOp& op) const = 0;
  // Whether the backend reads input 1 of an accepted op channels-last (filter_order.h), and would
  // have to move a filter in row-major order.
  virtual bool wants_channels_last_filter(const Program&, const ProgramOp&) const { return false; }
};

// Describes one kernel call of a compiled segment: what runs and how long it takes.
struct KernelReport {
  // names of the Program's ops that it does; a change of order or type counts to the op that needs
  // it
  std::vector<std::string> ops;
  std::string what;    // "convolution", "reorder"
  std::string kernel;  // the library's name of the implementation, or "custom"
  // type and order of what the op reads and writes: "u8 nhwc -> u8 nhwc"
  std::string layout;
  std::string post_ops;  // what it does besides: "add u8, relu"; empty for nothing
  double seconds = 0;    // in the fastest timed run; 0 when there was none
  // why it is slower than the program was made for: floats in the place of integers, the fallback;
  // empty: it is not
  std::string note = {};
};

// Why the program runs slower on this machine than it was lowered for.
struct Warning {
  // cause and remedy: "computed in floats, as ...; quantize with ..."
  std::string cause;
  std::vector<std::string> ops;  // names of the Program's ops; not empty
};

// One compiled segment. Not thread-safe: one instance per concurrent run.
class CompiledSegment {
 public:
  virtual ~CompiledSegment() = default;
  // inputs and outputs in the order of Segment::inputs and ::outputs, contiguous, of the right
  // dtype and shape; outputs are preallocated.
  virtual void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) = 0;
  // Sizes that the last run alone decided (`rest`), by position in Segment::outputs; empty: those
  // of the program.
  virtual std::vector<int64_t> output_shape(size_t) const { return {}; }
  // In the order of the calls. Empty if the backend does not report its kernels.
  virtual std::vector<KernelReport> kernels() const { return {}; }
  // Starts or stops timing kernel by kernel, and resets the times.
  virtual void time_kernels(bool) {}
  // One for each cause.
  virtual std::vector<Warning> warnings() const { return {}; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::map<std::string, std::string> versions() const = 0;
  // Whether `compile` takes constants in channels-last order (filter_order.h), too; for others they
  // are brought into row-major order before.
  virtual bool takes_channels_last() const { return false; }
  // threads: at least 1.
  virtual std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                                   int threads) const = 0;
};

}  // namespace octet
