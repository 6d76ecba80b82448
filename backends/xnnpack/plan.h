// Splits a segment into stages, each with host steps and one XNNPACK runtime, and picks the form of
// every tensor. XNNPACK cannot transpose, so when an op needs another memory order of a tensor made
// in the same stage, a new stage begins and the tensor is converted in between.
#pragma once

#include <compare>
#include <set>
#include <span>
#include <vector>

#include "backends/xnnpack/native_ops.h"

namespace octet::xnnpack {

// A tensor in one memory order, in memory outside of the runtimes.
struct BufferKey {
  int tensor;
  Order order;
  auto operator<=>(const BufferKey&) const = default;
};

struct PlannedOp {
  const ProgramOp* op;
  const NativeOp* row;
  Forms forms;
};

// Work between runtimes: a copy to the other memory order, or an op run by custom kernels
// (custom_ops.h).
struct HostStep {
  const ProgramOp* op;          // null: a copy
  std::vector<BufferKey> from;  // the op's inputs; constants in row-major order, absent ones as -1
  BufferKey to;
  std::vector<BufferKey> further = {};  // the op's other outputs
};

struct Stage {
  std::vector<HostStep> before;  // run before the runtime, in this order
  std::vector<PlannedOp> ops;    // may be empty
  std::set<BufferKey> reads;     // by the runtime: made before this stage
  std::set<BufferKey> writes;    // made here, needed later
};

struct Plan {
  std::vector<Stage> stages;
  std::set<BufferKey> imports;     // segment inputs, in each order that a stage reads
  std::vector<BufferKey> exports;  // where to find each segment output
};

// ops: in execution order, all accepted by check_op. outputs: tensors that the segment must
// deliver. Leaves out ops that no output needs.
Plan make_plan(const Program& program, std::span<const ProgramOp* const> ops,
               std::span<const int> inputs, std::span<const int> outputs);

}  // namespace octet::xnnpack
