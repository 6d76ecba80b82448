// See the header.
#include "backends/runtime/check_program.h"

#include <fmt/format.h>

#include "backends/reference/reference_backend.h"
#include "backends/registry.h"
#include "backends/runtime/memory_need.h"
#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/control.h"

namespace octet {
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
  const size_t need = peak_bytes(program), limit = allowed_bytes(memory_limit);
  if (need > limit)
    throw Error("session", "memory",
                fmt::format("the program needs {} bytes at once, want at most {}; raise the limit "
                            "or lower a smaller model",
                            need, limit));
  check_ops(program, advice);
}

}  // namespace octet
