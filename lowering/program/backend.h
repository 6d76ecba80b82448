// The interfaces that a backend implements: BackendSupport says at lowering time which ops it runs,
// and Backend compiles and runs segments of them. Neither needs LibTorch.
#pragma once

#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet {

// How far results may be from the reference's in `octet conformance`. Without one, integers differ
// at rounding ties alone, and floats by kFloatTolerance.
struct Tolerance {
  std::string cells;    // the start of their names: an op, or "op/shape"
  double steps = 0;     // of integers: output steps
  double relative = 0;  // of floats: share of the greatest magnitude in the result
  std::string reason;   // why, for users; not empty
};
inline constexpr double kFloatTolerance = 1e-5;

// The least work that pays for handing a segment to a backend: a segment with fewer
// multiply-accumulates than macs_per_segment + macs_per_byte * (bytes of its inputs and outputs)
// goes to the next backend.
struct TransferCost {
  double macs_per_segment = 0;
  double macs_per_byte = 0;
};

// Decides which ops a backend runs. An accepted op joins a segment of the backend, a refused op
// goes to the next backend, or to the fallback, with the verdict's reason.
class BackendSupport {
 public:
  virtual ~BackendSupport() = default;
  virtual std::string name() const = 0;
  // Library name -> linked version, recorded in the artifact. Throws Error when header and library
  // disagree.
  virtual std::map<std::string, std::string> versions() const = 0;
  // Must ask the library itself where possible, by creating the primitive or operator.
  virtual Verdict accepts(const Program& program, const ProgramOp& op) const = 0;
  // At the sizes of the exported example, if sizes are open.
  virtual TransferCost transfer_cost() const { return {}; }
  // The kinds in ops.def of which it accepts some ops, for the table of `octet inspect --ops`. A
  // backend without kinds is not in the table.
  virtual std::vector<std::string_view> kinds() const { return {}; }
  // Whether an accepted op multiplies the integers of its first input, which fake_quantize_dynamic
  // makes in the same segment. By default it multiplies floats.
  virtual bool multiplies_rounded(const Program&, const ProgramOp&) const { return false; }
  // Whether the backend reads input 1 of an accepted op channels-last (filter_order.h), so that it
  // would have to reorder a row-major filter.
  virtual bool wants_channels_last_filter(const Program&, const ProgramOp&) const { return false; }
  // The ops that differ more from the reference than the others.
  virtual std::vector<Tolerance> tolerances() const { return {}; }
};

// Backends in order of preference: an op goes to the first that accepts it.
using Supports = std::vector<std::shared_ptr<const BackendSupport>>;

// Calls support.accepts(). Throws Error(stage, name of the backend, ...) if it throws, or refuses
// without a reason.
Verdict ask(const std::string& stage, const BackendSupport& support, const Program& program,
            const ProgramOp& op);

// The outputs of fake_quantize_dynamic: float32 whose integers products may multiply.
std::set<int> rounded_at_run_time(const Program& program);

// Describes one kernel call of a compiled segment: what runs and how long it takes.
struct KernelReport {
  // names of the Program's ops that it computes; a reorder or a conversion counts for the op that
  // needs it
  std::vector<std::string> ops;
  std::string what;    // "convolution", "reorder"
  std::string kernel;  // the library's name of the implementation, or "custom"
  // type and order of what the op reads and writes: "u8 nhwc -> u8 nhwc"
  std::string layout;
  std::string post_ops;  // "add u8, relu"; may be empty
  double seconds = 0;    // in the fastest timed run; 0 without one
  // why it is slower than the program was lowered for: floats instead of integers, or the fallback;
  // empty if it is not slower
  std::string note = {};
};

// Why the program runs slower on this machine than it was lowered for.
struct Warning {
  // cause and remedy: "computed in floats, as ...; quantize with ..."
  std::string cause;
  std::vector<std::string> ops;  // names of the Program's ops; not empty
};

// One compiled segment. Not thread-safe: use one instance per concurrent run.
class CompiledSegment {
 public:
  virtual ~CompiledSegment() = default;
  // Inputs and outputs are in the order of Segment::inputs and ::outputs, contiguous, of the right
  // dtype and shape. Outputs are preallocated.
  virtual void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) = 0;
  // The shape of an output whose size the last run decided (`rest`), by its position in
  // Segment::outputs; empty: the shape in the program.
  virtual std::vector<int64_t> output_shape(size_t) const { return {}; }
  // In the order of the calls. Empty if the backend does not report its kernels.
  virtual std::vector<KernelReport> kernels() const { return {}; }
  // Starts or stops timing each kernel, and resets the times.
  virtual void time_kernels(bool) {}
  // One warning for each cause.
  virtual std::vector<Warning> warnings() const { return {}; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual std::map<std::string, std::string> versions() const = 0;
  // Whether `compile` accepts constants in channels-last order (filter_order.h). For other backends
  // constants are made row-major first.
  virtual bool takes_channels_last() const { return false; }
  // threads: at least 1.
  virtual std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                                   int threads) const = 0;
};

}  // namespace octet
