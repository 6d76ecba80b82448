#include "backends/xnnpack/support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/compile.h"
#include "backends/xnnpack/library.h"
#include "backends/xnnpack/ops.h"

namespace octet {
namespace {

// All that the library's answer depends on: everything but the values of constants.
std::string describe_tensor(const ProgramTensor& tensor) {
  std::string text = fmt::format("{}{}[{}]", tensor.is_constant() ? "constant " : "",
                                 short_name_of(tensor.dtype), fmt::join(tensor.shape, ","));
  if (tensor.qparams.has_value())
    text += fmt::format("*{}+{}", fmt::join(tensor.qparams->scale, ","),
                        fmt::join(tensor.qparams->zero_point, ","));
  return text;
}

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

std::map<std::string, std::string> XNNPACKSupport::versions() const {
  return xnnpack::library_versions();
}

Verdict XNNPACKSupport::accepts(const Program& program, const ProgramOp& op) const {
  Verdict verdict = xnnpack::check_op(program, op);
  // what we do ourselves needs no proof
  if (!verdict || !xnnpack::is_native(program, op)) return verdict;
  return proofs_.find_or_prove(op_signature(program, op, describe_tensor),
                               [&] { return prove(program, op); });
}

bool XNNPACKSupport::wants_channels_last_filter(const Program& program, const ProgramOp& op) const {
  return op.kind == "conv" && !xnnpack::is_depthwise(program, op);
}

}  // namespace octet
