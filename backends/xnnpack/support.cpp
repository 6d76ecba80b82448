#include "backends/xnnpack/support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/compile.h"
#include "backends/xnnpack/library.h"
#include "backends/xnnpack/ops.h"

namespace octet {
namespace {

std::string text_of(const Attribute& attribute) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, attribute);
}

void append_signature(std::string& text, const ProgramTensor& tensor) {
  fmt::format_to(std::back_inserter(text), " {}{}[{}]", tensor.is_constant() ? "constant " : "",
                 short_name_of(tensor.dtype), fmt::join(tensor.shape, ","));
  if (tensor.qparams.has_value()) {
    fmt::format_to(std::back_inserter(text), "*{}+{}", fmt::join(tensor.qparams->scale, ","),
                   fmt::join(tensor.qparams->zero_point, ","));
  }
}

// All that the library's answer depends on: everything but the values of constants.
std::string signature_of(const Program& program, const ProgramOp& op) {
  std::string text = op.kind;
  for (const std::pair<const std::string, Attribute>& attribute : op.attributes) {
    fmt::format_to(std::back_inserter(text), " {}={}", attribute.first, text_of(attribute.second));
  }
  for (int index : op.inputs) {
    if (index < 0)
      text += " -";
    else
      append_signature(text, program.tensor(index));
  }
  text += " ->";
  for (int index : op.outputs) append_signature(text, program.tensor(index));
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
  const std::string signature = signature_of(program, op);
  auto it = proofs_.find(signature);
  if (it == proofs_.end()) it = proofs_.emplace(signature, prove(program, op)).first;
  return it->second;
}

bool XNNPACKSupport::wants_channels_last_filter(const Program& program, const ProgramOp& op) const {
  return op.kind == "conv" && !xnnpack::is_depthwise(program, op);
}

}  // namespace octet
