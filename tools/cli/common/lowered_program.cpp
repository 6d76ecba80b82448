#include "tools/cli/common/lowered_program.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "backends/kernels/isa.h"
#include "core/interpreter/aten_bridge.h"
#include "lowering/program/float_compute.h"
#include "lowering/program/stored_constant.h"

namespace octet {

std::vector<c10::IValue> run_session(Session& session, const std::vector<c10::IValue>& inputs) {
  std::vector<Tensor> tensors;
  for (const c10::IValue& input : inputs)
    tensors.push_back(input.isTensor() ? from_aten(input.toTensor()) : Tensor());
  std::vector<c10::IValue> outputs;
  for (const Tensor& tensor : session.run(tensors)) outputs.emplace_back(to_aten(tensor));
  return outputs;
}

std::vector<c10::IValue> only_tensors(std::vector<c10::IValue> outputs) {
  std::erase_if(outputs, [](const c10::IValue& output) { return !output.isTensor(); });
  return outputs;
}

std::vector<std::string> slow_products(const Program& program) {
  std::map<std::string, std::vector<std::string>> ops;  // by reason
  for (const Segment& segment : program.segments)
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      if (op.has(attr::kCompute) && !may_use(Isa::kAvx512Bf16))
        ops["computed in float32, as this CPU has no AVX512-BF16; bfloat16 on CPUs that have it"]
            .push_back(op.name);
      const auto reason = program.reasons.find(op.name);
      if (segment.backend == "reference" && op.macs > 0 && reason != program.reasons.end())
        ops["on the reference, which is slow: " + reason->second].push_back(op.name);
    }
  std::vector<std::string> lines;
  for (const auto& [reason, names] : ops) {
    const std::string more = names.size() == 1 ? "" : fmt::format(" and {} more", names.size() - 1);
    lines.push_back(fmt::format("{}{}: {}", names.front(), more, reason));
  }
  return lines;
}

namespace {

struct Macs {
  double all = 0, integers = 0;
};

void add_macs(const Program& program, const Supports& supports, Macs& macs) {
  for (const Program& body : program.bodies) add_macs(body, supports, macs);
  const std::set<int> rounded = rounded_at_run_time(program);
  for (const Segment& segment : program.segments) {
    const auto support = std::ranges::find_if(
        supports, [&](const auto& each) { return each->name() == segment.backend; });
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      macs.all += static_cast<double>(op.macs);
      if (op.macs == 0 || support == supports.end() || segment.backend == "reference") continue;
      if (is_integer(program.input(op, 0).dtype) ||
          (rounded.contains(op.inputs[0]) && (*support)->multiplies_rounded(program, op)))
        macs.integers += static_cast<double>(op.macs);
    }
  }
}

}  // namespace

double integer_share(const Program& program, const Supports& supports) {
  Macs macs;
  add_macs(program, supports, macs);
  return macs.all > 0 ? macs.integers / macs.all : 0;
}

size_t constant_bytes(const Program& program) {
  const auto bytes_of = [](const ProgramTensor& tensor) {
    if (!tensor.stored) return tensor.nbytes();
    const StoredConstant& stored = *tensor.stored;
    size_t bytes = octet::bytes_of(stored).nbytes();
    if (stored.scale.defined()) bytes += stored.scale.nbytes();
    if (stored.zero_point.defined()) bytes += stored.zero_point.nbytes();
    return bytes;
  };
  size_t total = 0;
  std::set<int> whole;  // read by another op than a lookup
  for (const ProgramOp& op : program.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!op.has_input(i) || !program.input(op, i).is_constant()) continue;
      const ProgramTensor& tensor = program.input(op, i);
      if (i != 0 || !op.is("embedding") || tensor.numel() == 0)
        whole.insert(op.inputs[i]);
      else
        total += bytes_of(tensor) * static_cast<size_t>(program.output(op).numel()) /
                 static_cast<size_t>(tensor.numel());
    }
  }
  for (const int index : whole) total += bytes_of(program.tensor(index));
  return total;
}

}  // namespace octet
