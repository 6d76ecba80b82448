#include "tools/cli/compare/op_runs.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "lowering/program/control.h"
#include "lowering/program/specialize.h"
#include "lowering/program/symbols.h"

namespace octet {

std::vector<std::string> backends_of_ops(const Program& program) {
  std::vector<std::string> backends(program.ops.size());
  for (const Segment& segment : program.segments)
    for (int op : segment.ops) backends[static_cast<size_t>(op)] = segment.backend;
  return backends;
}

Program single_op(const Program& program, size_t index, const std::string& backend) {
  Program part;
  part.backend = backend;
  part.versions = program.versions;
  part.symbols = program.symbols;
  ProgramOp op = program.ops[index];
  std::map<int, int> places;
  Segment segment{.backend = backend, .ops = {0}, .inputs = {}, .outputs = {}};
  const auto place_of = [&](int tensor, bool is_output) {
    const auto [known, is_new] = places.emplace(tensor, static_cast<int>(part.tensors.size()));
    if (!is_new) return known->second;
    part.tensors.push_back(program.tensor(tensor));
    ProgramTensor& own = part.tensors.back();
    if (own.is_constant()) return known->second;
    own.role = is_output ? ProgramTensor::Role::kOutput : ProgramTensor::Role::kInput;
    (is_output ? part.outputs : part.inputs).push_back(known->second);
    (is_output ? segment.outputs : segment.inputs).push_back(known->second);
    return known->second;
  };
  for (int& input : op.inputs)
    if (input >= 0) input = place_of(input, /*is_output=*/false);
  for (int& output : op.outputs)
    if (output >= 0) output = place_of(output, /*is_output=*/true);
  part.ops.push_back(std::move(op));
  part.segments.push_back(std::move(segment));
  return part;
}

static void check_rank(const ProgramTensor& wanted, const at::Tensor& found) {
  if (found.dim() != static_cast<int64_t>(wanted.shape.size()))
    throw Error("compare", "input " + wanted.name,
                fmt::format("got {} dimensions, want {}; give data for this program", found.dim(),
                            wanted.shape.size()));
}

bool SizedProgram::bind(const std::vector<c10::IValue>& batch) {
  if (program_.symbols.empty()) return false;
  std::vector<const int64_t*> shapes;
  for (size_t i = 0; i < program_.inputs.size(); ++i) {
    const bool is_read = program_.inputs[i] >= 0 && i < batch.size() && batch[i].isTensor();
    if (is_read) check_rank(program_.tensor(program_.inputs[i]), batch[i].toTensor());
    shapes.push_back(is_read ? batch[i].toTensor().sizes().data() : nullptr);
  }
  SymbolValues values = bind_symbols(program_, shapes, "compare");
  if (values == values_) return false;
  values_ = std::move(values);
  at_ = specialize(program_, values_);
  return true;
}

OpRuns::OpRuns(const Program& program) : program_(program), sized_(program) {
  const bool has_control =
      std::ranges::any_of(program.ops, [](const ProgramOp& op) { return is_control(op); });
  if (has_control || !program.states.empty())
    throw Error("compare", "the first .octet program",
                "has states or control flow, which two lowered programs cannot be compared with; "
                "give the .pt2 that it was lowered from");
}

void OpRuns::compile() {
  const std::vector<std::string> backends = backends_of_ops(program_);
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    const Program part = single_op(sized_.at(), i, backends[i]);
    for (int input : part.inputs) last_use_[part.tensor(input).name] = i;
    sessions_.push_back(std::make_unique<Session>(part));
  }
}

void OpRuns::run(const std::vector<c10::IValue>& batch, const TensorSink& sink) {
  if (sized_.bind(batch)) sessions_.clear();
  if (sessions_.empty()) compile();
  std::unordered_map<std::string, Tensor> alive;
  for (size_t i = 0; i < program_.inputs.size() && i < batch.size(); ++i) {
    if (program_.inputs[i] < 0 || !batch[i].isTensor()) continue;
    const std::string& name = program_.tensor(program_.inputs[i]).name;
    alive[name] = from_aten(batch[i].toTensor().contiguous());
    sink(name, batch[i].toTensor());
  }
  for (size_t i = 0; i < sessions_.size(); ++i) {
    const Program& own = sessions_[i]->program();
    std::vector<Tensor> inputs;
    for (int input : own.inputs) inputs.push_back(alive.at(own.tensor(input).name));
    const std::vector<Tensor> outputs = sessions_[i]->run(inputs);
    for (size_t j = 0; j < outputs.size(); ++j) {
      const std::string& name = own.tensor(own.outputs[j]).name;
      alive[name] = outputs[j];
      sink(name, to_aten(outputs[j]));
    }
    for (int input : own.inputs) {
      const std::string& name = own.tensor(input).name;
      if (last_use_.at(name) == i) alive.erase(name);
    }
  }
}

}  // namespace octet
