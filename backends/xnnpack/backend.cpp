#include "backends/xnnpack/backend.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/compile.h"
#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/dynamic.h"
#include "backends/xnnpack/library.h"
#include "backends/xnnpack/native_ops.h"
#include "core/base/error.h"

namespace octet {
namespace {

// Plans the op alone.
Verdict prove(const Program& program, const ProgramOp& op) {
  std::vector<int> inputs;
  for (int index : op.inputs) {
    if (index >= 0 && !program.tensor(index).is_constant()) inputs.push_back(index);
  }
  const ProgramOp* const ops[] = {&op};
  try {
    xnnpack::compile(program, ops, inputs, op.outputs, 1);
  } catch (const xnnpack::Refusal& refusal) {
    return Verdict::refuse(fmt::format("XNNPACK refuses it ({})", refusal.what()));
  }
  return Verdict::accept();
}

}  // namespace

std::map<std::string, std::string> XNNPACKBackend::versions() const {
  return xnnpack::library_versions();
}

std::unique_ptr<CompiledSegment> XNNPACKBackend::compile(const Program& program,
                                                         const Segment& segment,
                                                         int threads) const {
  std::vector<const ProgramOp*> ops;
  std::set<int> bytes;  // tensors quantized at run time, whose floats are never made
  for (int index : segment.ops) {
    const ProgramOp& op = program.ops.at(static_cast<size_t>(index));
    const Verdict verdict = xnnpack::check_op(program, op);
    if (!verdict)
      throw Error(
          "xnnpack", op.name,
          fmt::format("cannot run {}: {}; lower the model again", op.kind, verdict.reason()));
    ops.push_back(&op);
    if (op.is("fake_quantize_dynamic") && xnnpack::check_row_quantize(program, op))
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
    std::string subject = "segment", reason = refusal.what();
    for (const ProgramOp* op : ops) {
      if (!xnnpack::is_native(program, *op)) continue;
      const Verdict verdict = prove(program, *op);
      if (verdict) continue;
      subject = op->name;
      reason = verdict.reason();
      break;
    }
    throw Error("xnnpack", subject,
                fmt::format("{} does not take it: {}; lower the program again",
                            xnnpack::library_versions().at("xnnpack"), reason));
  }
}

// ---- acceptance: the row's check, then a plan of the op alone

namespace {

// Everything that the library's answer depends on: all but the values of constants.
std::string describe_tensor(const ProgramTensor& tensor) {
  std::string text = fmt::format("{}{}[{}]", tensor.is_constant() ? "constant " : "",
                                 short_name_of(tensor.dtype), fmt::join(tensor.shape, ","));
  if (tensor.qparams.has_value())
    text += fmt::format("*{}+{}", fmt::join(tensor.qparams->scale, ","),
                        fmt::join(tensor.qparams->zero_point, ","));
  return text;
}

}  // namespace

std::map<std::string, std::string> XNNPACKSupport::versions() const {
  return xnnpack::library_versions();
}

std::vector<Tolerance> XNNPACKSupport::tolerances() const {
  const char* const bias = "XNNPACK rounds a float bias to the steps of its sums";
  return {{"conv", 1, 0, bias},
          {"conv_transpose", 1, 0, bias},
          {"linear", 1, 0, bias},
          {"unary/gelu", 1, 0, "int16 shows the rounding of its approximation"},
          {"model", 4, 0, bias}};
}

Verdict XNNPACKSupport::accepts(const Program& program, const ProgramOp& op) const {
  Verdict verdict = xnnpack::check_op(program, op);
  // custom kernels need no proof
  if (!verdict || !xnnpack::is_native(program, op)) return verdict;
  return proofs_.find_or_prove(op_signature(program, op, describe_tensor),
                               [&] { return prove(program, op); });
}

std::vector<std::string_view> XNNPACKSupport::kinds() const {
  std::vector<std::string_view> kinds = xnnpack::custom_kinds();
  for (const xnnpack::NativeOp& row : xnnpack::native_ops()) kinds.push_back(row.kind.name);
  return kinds;
}

bool XNNPACKSupport::multiplies_rounded(const Program& program, const ProgramOp& op) const {
  return xnnpack::find_row_quantize(program, op) != nullptr;
}

bool XNNPACKSupport::wants_channels_last_filter(const Program& program, const ProgramOp& op) const {
  return op.is("conv") && !xnnpack::is_depthwise(program, op);
}

}  // namespace octet
