// Cuts a segment into stages, each one XNNPACK runtime and what is done before it, and picks the
// form of every tensor. XNNPACK cannot transpose, so where an op wants the other memory order of a
// tensor made in the same stage, a new stage begins and the tensor is converted in between.
#pragma once

#include <compare>
#include <set>
#include <span>
#include <vector>

#include "backends/xnnpack/native_ops.h"

namespace octet::xnnpack {

// A tensor in one memory order, held outside of the runtimes.
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

// What is done between runtimes: a copy into the other memory order, or an op by custom kernels
// (custom_ops.h).
struct HostStep {
  const ProgramOp* op;          // null: the copy
  std::vector<BufferKey> from;  // the op's inputs; constants in row-major order, absent ones as -1
  BufferKey to;
  std::vector<BufferKey> further = {};  // what the op makes beside its first output
};

struct Stage {
  std::vector<HostStep> before;  // to do before the runtime runs, in this order
  std::vector<PlannedOp> ops;    // may be empty
  std::set<BufferKey> reads;     // of the runtime: made before this stage
  std::set<BufferKey> writes;    // made here, wanted later
};

struct Plan {
  std::vector<Stage> stages;
  std::set<BufferKey> imports;     // segment inputs, in each order that a stage reads
  std::vector<BufferKey> exports;  // where each segment output is found
};

// ops in execution order, all accepted by check_op. outputs: tensors that the segment must deliver;
// ops that none of them needs are left out.
Plan make_plan(const Program& program, std::span<const ProgramOp* const> ops,
               std::span<const int> inputs, std::span<const int> outputs);

}  // namespace octet::xnnpack
