#include "backends/xnnpack/backend.h"

#include <set>

#include <fmt/format.h>

#include "backends/xnnpack/compile.h"
#include "backends/xnnpack/dynamic.h"
#include "backends/xnnpack/library.h"
#include "backends/xnnpack/ops.h"
#include "core/base/error.h"

namespace octet {

std::map<std::string, std::string> XNNPACKBackend::versions() const {
  return xnnpack::library_versions();
}

std::unique_ptr<CompiledSegment> XNNPACKBackend::compile(const Program& program,
                                                         const Segment& segment,
                                                         int threads) const {
  std::vector<const ProgramOp*> ops;
  std::set<int> bytes;  // tensors that are quantized at run time; their floats are never made
  for (int index : segment.ops) {
    const ProgramOp& op = program.ops.at(static_cast<size_t>(index));
    const Verdict verdict = xnnpack::check_op(program, op);
    if (!verdict)
      throw Error(
          "xnnpack", op.name,
          fmt::format("cannot run {}: {}; lower the model again", op.kind, verdict.reason()));
    ops.push_back(&op);
    if (op.kind == "fake_quantize_dynamic" && xnnpack::check_row_quantize(program, op))
      bytes.insert(op.outputs[0]);
  }
  for (int index : segment.outputs)
    if (bytes.contains(index))
      throw Error(
          "xnnpack", program.tensor(index).name,
          "its floats leave the segment, but only its bytes are made; lower the model again");
  try {
    return xnnpack::compile(program, ops, segment.inputs, segment.outputs, threads);
  } catch (const xnnpack::Refusal& refusal) {
    throw Error(
        "xnnpack", "segment",
        fmt::format(
            "this XNNPACK refuses an op of the artifact, got \"{}\"; lower the model again here",
            refusal.what()));
  }
}

}  // namespace octet
