#include "tools/cli/common/lowered_program.h"

#include <map>

#include <fmt/format.h>

#include "core/interpreter/aten_bridge.h"

namespace octet {

std::vector<c10::IValue> run_session(Session& session, const std::vector<c10::IValue>& inputs) {
  std::vector<Tensor> tensors;
  for (const c10::IValue& input : inputs)
    tensors.push_back(input.isTensor() ? from_aten(input.toTensor()) : Tensor());
  std::vector<c10::IValue> outputs;
  for (const Tensor& tensor : session.run(tensors)) outputs.emplace_back(to_aten(tensor));
  return outputs;
}

std::vector<std::string> slow_products(const Program& program) {
  std::map<std::string, std::vector<std::string>> ops;  // by reason
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      const auto reason = program.reasons.find(op.name);
      if (segment.backend == "reference" && op.macs > 0 && reason != program.reasons.end())
        ops[reason->second].push_back(op.name);
    }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : ops) {
    const std::string more = names.size() == 1 ? "" : fmt::format(" and {} more", names.size() - 1);
    lines.push_back(
        fmt::format("{}{}: on the reference, which is slow: {}", names.front(), more, reason));
  }
  return lines;
}

}  // namespace octet
