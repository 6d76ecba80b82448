// See the header.
#include "backends/runtime/check_program.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "backends/reference/reference_backend.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/control.h"

namespace octet {
namespace {

size_t bytes_of(const ProgramTensor& tensor) {
  return static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype);
}

size_t saturating_add(size_t a, size_t b) {
  size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<size_t>::max() : sum;
}

size_t machine_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page)
                               : std::numeric_limits<size_t>::max();
}

// Ops in execution order.
std::vector<const ProgramOp*> ordered_ops(const Program& program) {
  std::vector<const ProgramOp*> ops;
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) ops.push_back(&program.op(index));
  return ops;
}

// The bodies' memory, and that of what goes from round to round, lives as long as the program.
size_t body_bytes(const Program& program) {
  size_t bytes = 0;
  for (const Program& body : program.bodies) bytes = saturating_add(bytes, peak_bytes(body));
  for (const ProgramOp& op : program.ops)
    if (is_control(op))
      for (int index : op.outputs)
        for (int block = 0; block < 2; ++block)
          bytes = saturating_add(bytes, bytes_of(program.tensor(index)));
  return bytes;
}

}  // namespace

size_t peak_bytes(const Program& program) {
  const std::vector<const ProgramOp*> ops = ordered_ops(program);
  std::vector<size_t> last(program.tensors.size(), 0);  // step after which the tensor is dead
  for (size_t step = 0; step < ops.size(); ++step)
    for (const std::vector<int>* tensors : {&ops[step]->inputs, &ops[step]->outputs})
      for (int index : *tensors)
        if (index >= 0) last[static_cast<size_t>(index)] = step;
  const auto held = [&](int index) { return index >= 0 && !program.tensor(index).is_constant(); };
  size_t live = body_bytes(program);
  for (int index : program.given())
    if (held(index)) live = saturating_add(live, bytes_of(program.tensor(index)));
  for (int index : program.results()) {
    // the caller's copy, or the session's
    live = saturating_add(live, bytes_of(program.tensor(index)));
  }
  std::vector<bool> stays(program.tensors.size(), false);  // counted once, above
  for (const std::vector<int>& indices : {program.given(), program.results()})
    for (int index : indices)
      if (index >= 0) stays[static_cast<size_t>(index)] = true;
  size_t peak = live;
  std::vector<std::vector<int>> dead_after(ops.size());
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (!ops.empty() && !stays[i] && held(static_cast<int>(i)))
      dead_after[last[i]].push_back(static_cast<int>(i));
  std::vector<bool> made(program.tensors.size(), false);
  for (size_t step = 0; step < ops.size(); ++step) {
    for (int index : ops[step]->outputs)
      if (!stays[static_cast<size_t>(index)]) {
        live = saturating_add(live, bytes_of(program.tensor(index)));
        made[static_cast<size_t>(index)] = true;
      }
    peak = std::max(peak, live);
    if (live == std::numeric_limits<size_t>::max()) return live;
    for (int index : dead_after[step])
      if (made[static_cast<size_t>(index)]) live -= bytes_of(program.tensor(index));
  }
  return peak;
}

namespace {

void check_ops(const Program& program, const char* advice) {
  if (program.segments.empty() && !program.ops.empty())
    throw Error(
        "session", program.ops.front().name,
        "the program's ops are in no segment, want each on a backend; lower the model again");
  for (const Program& body : program.bodies) check_ops(body, advice);
  const ReferenceSupport support;
  for (const Segment& segment : program.segments) {
    if (segment.backend == kControl) continue;  // verify() looked at it
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      // an op of ATen that was kept whole has no meaning but that of the backend that keeps it
      const Verdict verdict = op.kind == "aten"
                                  ? make_support(segment.backend)->accepts(program, op)
                                  : support.accepts(program, op);
      if (verdict) continue;
      throw Error(
          "session", op.name,
          fmt::format("cannot run on the {} backend: {}{}", segment.backend, verdict.reason(),
                      op.kind == "custom" ? "" : fmt::format("; {}", advice)));
    }
  }
}

}  // namespace

void check_runnable(const Program& program, size_t memory_limit, const char* advice) {
  const size_t need = peak_bytes(program),
               limit = memory_limit == 0 ? machine_bytes() : memory_limit;
  if (need > limit)
    throw Error("session", "memory",
                fmt::format("the program needs {} bytes at once, want at most {}; raise the limit "
                            "or lower a smaller model",
                            need, limit));
  check_ops(program, advice);
}

}  // namespace octet
