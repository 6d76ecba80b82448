// Checks a verified Program before it is compiled: the memory that it needs, and each op.
//
// Counting memory takes time linear in the size of the program: bodies form a tree, and each is
// compiled once, however many ops run it.
#include "backends/runtime/check_program.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "backends/reference/kernel.h"
#include "backends/reference/reference_backend.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "backends/runtime/state_memory.h"
#include "core/base/error.h"
#include "lowering/program/arena_plan.h"
#include "lowering/program/control.h"

namespace octet {

namespace {

// The peak bytes over all steps.
size_t greatest(const std::map<int, ArenaBuffer>& buffers, size_t steps) {
  std::vector<size_t> begins(steps, 0), ends(steps, 0);
  for (const auto& [index, buffer] : buffers) {
    size_t& begin = begins[static_cast<size_t>(buffer.first)];
    size_t& end = ends[static_cast<size_t>(buffer.last)];
    begin = saturating_add(begin, buffer.bytes);
    end = saturating_add(end, buffer.bytes);
  }
  size_t live = 0, most = 0;
  for (size_t step = 0; step < steps; ++step) {
    live = saturating_add(live, begins[step]);
    if (live == kNoMemory) return live;
    most = std::max(most, live);
    live -= ends[step];
  }
  return most;
}

// The two blocks of each carried value.
size_t carried_bytes(const Program& program, const ProgramOp& op) {
  const bool is_while = op.is("while_loop");
  if (!is_while && !op.is("scan")) return 0;
  const size_t carried = is_while ? op.outputs.size() : static_cast<size_t>(op.get(attr::kCarried));
  size_t bytes = 0;
  for (size_t k = 0; k < carried; ++k)
    for (int block = 0; block < 2; ++block)
      bytes = saturating_add(bytes, program.output(op, k).nbytes());
  return bytes;
}

// Whether the op reads the input in its stored form, so that no memory has its elements.
bool is_read_as_stored(const Program& program, const Segment& segment, const ProgramOp& op,
                       size_t input) {
  return segment.backend == "reference" &&
         reference::reads_as_stored(op, input, program.input(op, input));
}

// XNNPACK packs a constant for each op that reads it, other backends expand a stored one for each
// segment; oneDNN shares packed constants.
size_t copied_constants(const Program& program) {
  std::set<int> seen;
  size_t bytes = 0;
  for (const Segment& segment : program.segments) {
    if (segment.backend == "onednn") continue;
    std::set<int> in_segment;
    for (int op_index : segment.ops) {
      const ProgramOp& op = program.op(op_index);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const int index = op.inputs[i];
        if (index < 0 || !program.tensor(index).is_constant() ||
            is_read_as_stored(program, segment, op, i))
          continue;
        const bool is_copied = segment.backend == "xnnpack" ||
                               (program.tensor(index).stored && in_segment.insert(index).second);
        if (is_copied && !seen.insert(index).second)
          bytes = saturating_add(bytes, program.tensor(index).nbytes());
      }
    }
  }
  return bytes;
}

// The additional memory of a reference kernel, maximized over kernels: all elements in 64 bits.
size_t scratch_bytes(const Program& program) {
  size_t most = 0;
  for (const Segment& segment : program.segments) {
    if (segment.backend != "reference") continue;
    for (int op_index : segment.ops) {
      const ProgramOp& op = program.op(op_index);
      size_t bytes = 0;
      const auto add = [&](int index) {  // shapes stay far below 2^60 elements
        if (index >= 0)
          bytes = saturating_add(
              bytes, sizeof(double) * static_cast<size_t>(program.tensor(index).numel()));
      };
      for (size_t i = 0; i < op.inputs.size(); ++i)
        if (op.inputs[i] >= 0 && !is_read_as_stored(program, segment, op, i)) add(op.inputs[i]);
      for (int index : op.outputs) add(index);
      most = std::max(most, bytes);
    }
  }
  for (const Program& body : program.bodies) most = std::max(most, scratch_bytes(body));
  return most;
}

}  // namespace

size_t saturating_add(size_t a, size_t b) {
  size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kNoMemory : sum;
}

size_t held_bytes(const Program& program) {
  size_t bytes =
      saturating_add(greatest(buffers_between_segments(program), program.segments.size()),
                     copied_constants(program));
  for (const Segment& segment : program.segments) {
    bytes = saturating_add(bytes, greatest(buffers_inside(program, segment), segment.ops.size()));
    if (segment.backend == kControl)
      bytes = saturating_add(bytes, carried_bytes(program, program.op(segment.ops.front())));
  }
  for (const Program& body : program.bodies) bytes = saturating_add(bytes, held_bytes(body));
  return bytes;
}

size_t peak_bytes(const Program& program) {
  size_t bytes = saturating_add(held_bytes(program), scratch_bytes(program));
  for (int index : program.given())
    if (index >= 0) bytes = saturating_add(bytes, program.tensor(index).nbytes());
  // An output that is an input or a constant is copied into separate memory.
  for (int index : program.outputs) bytes = saturating_add(bytes, program.tensor(index).nbytes());
  for (const ProgramState& state : program.states)
    if (!is_written_in_place(program, state))
      bytes = saturating_add(bytes, program.tensor(state.next).nbytes());
  for (int index : program.inputs)  // Session may copy them (core/base/tensor.h)
    if (index >= 0 && program.tensor(index).dtype == DType::kBool)
      bytes = saturating_add(bytes, program.tensor(index).nbytes());
  return bytes;
}

size_t allowed_bytes(size_t memory_limit) {
  if (memory_limit != 0) return memory_limit;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : kNoMemory;
}

// ---- ops

namespace {

void check_ops(const Program& program, const char* advice) {
  if (program.segments.empty() && !program.ops.empty())
    throw Error(
        "session", program.ops.front().name,
        "the program's ops are in no segment, want each on a backend; lower the model again");
  for (const Program& body : program.bodies) check_ops(body, advice);
  const ReferenceSupport support;
  for (const Segment& segment : program.segments) {
    if (segment.backend == kControl) continue;  // verify() checked it
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      // only its backend knows the meaning of an ATen op, and whether it has a custom op
      const bool asks_backend =
          op.is("aten") || (op.is("custom") && segment.backend != support.name());
      const Verdict verdict = asks_backend ? make_support(segment.backend)->accepts(program, op)
                                           : support.accepts(program, op);
      if (verdict) continue;
      throw Error(
          "session", op.name,
          fmt::format("cannot run on the {} backend: {}{}", segment.backend, verdict.reason(),
                      op.is("custom") ? "" : fmt::format("; {}", advice)));
    }
  }
}

}  // namespace

void check_runnable(const Program& program, size_t memory_limit, const char* advice) {
  const size_t need = peak_bytes(program), limit = allowed_bytes(memory_limit);
  if (need > limit)
    throw Error("session", "memory",
                fmt::format("the program needs {} bytes at once, want at most {}; raise the limit "
                            "or lower a smaller model",
                            need, limit));
  check_ops(program, advice);
}

}  // namespace octet
