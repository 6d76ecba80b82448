// Edits programs. refresh() is linear; programs have at most a few thousand ops.
#include "lowering/fuse/program_editor.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lowering/program/control.h"
#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"

namespace octet {

ProgramEditor::ProgramEditor(Program& program) : program_(program) { refresh(); }

void ProgramEditor::refresh() {
  producer_.assign(program_.tensors.size(), -1);
  users_.assign(program_.tensors.size(), {});
  is_output_.assign(program_.tensors.size(), false);
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    if (is_erased(i)) continue;
    for (int index : program_.ops[i].outputs)
      producer_[static_cast<size_t>(index)] = static_cast<int>(i);
    for (int index : program_.ops[i].inputs) {
      if (index < 0) continue;
      std::vector<int>& users = users_[static_cast<size_t>(index)];
      if (users.empty() || users.back() != static_cast<int>(i))
        users.push_back(static_cast<int>(i));
    }
  }
  for (int index : program_.results()) is_output_[static_cast<size_t>(index)] = true;
}

ProgramOp* ProgramEditor::find_producer(int tensor, OpKind kind) {
  if (tensor < 0 || producer(tensor) < 0) return nullptr;
  ProgramOp& found = program_.op(producer(tensor));
  return found.is(kind) ? &found : nullptr;
}

ProgramOp* ProgramEditor::find_bare_producer(int tensor, OpKind kind) {
  ProgramOp* op = find_producer(tensor, kind);
  return op != nullptr && op->attributes.empty() ? op : nullptr;
}

std::optional<double> ProgramEditor::find_number(int tensor) const {
  if (!is_constant(tensor)) return std::nullopt;
  const ProgramTensor& constant = program_.tensor(tensor);
  if (constant.numel() != 1 || constant.dtype != DType::kFloat32 || !constant.data.defined())
    return std::nullopt;
  return double{constant.data.contiguous().data<float>()[0]};
}

int ProgramEditor::only_user(int tensor) const {
  const std::vector<int>& all = users(tensor);
  return all.size() == 1 && !is_output(tensor) ? all.front() : -1;
}

int ProgramEditor::add_tensor(ProgramTensor tensor) {
  const std::string base = tensor.name;
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(program_.tensors,
                               [&](const ProgramTensor& other) { return other.name == name; });
  };
  for (int suffix = 1; is_taken(tensor.name); ++suffix)
    tensor.name = fmt::format("{}_{}", base, suffix);
  program_.tensors.push_back(std::move(tensor));
  producer_.push_back(-1);
  users_.emplace_back();
  is_output_.push_back(false);
  return static_cast<int>(program_.tensors.size()) - 1;
}

int ProgramEditor::add_constant(const std::string& name, Tensor data,
                                std::optional<TensorQParams> qparams) {
  data = data.contiguous();
  return add_tensor(
      {name, data.dtype(), data.shape(), std::move(qparams), ProgramTensor::Role::kConstant, data});
}

int ProgramEditor::add_constant(const std::string& name, StoredConstant stored) {
  return add_tensor(constant_tensor(name, std::move(stored)));
}

int ProgramEditor::add_dequantized(const std::string& name, int integer) {
  const ProgramTensor& source = tensor(integer);
  if (size_of(source.dtype) <= 2)
    return add_constant(name, stored_constant(source.data, *source.qparams));
  return add_constant(name, dequantize_constant(source.data, *source.qparams));
}

void ProgramEditor::insert(size_t before, ProgramOp op) {
  program_.ops.insert(program_.ops.begin() + static_cast<std::ptrdiff_t>(before), std::move(op));
  refresh();
}

void ProgramEditor::erase(size_t i) {
  program_.ops[i].kind.clear();
  program_.ops[i].inputs.clear();
  program_.ops[i].outputs.clear();
  refresh();
}

void ProgramEditor::replace_uses(int from, int to) {
  for (ProgramOp& op : program_.ops) std::replace(op.inputs.begin(), op.inputs.end(), from, to);
  if (is_output(from)) {
    std::replace(program_.outputs.begin(), program_.outputs.end(), from, to);
    for (ProgramState& state : program_.states)
      if (state.next == from) state.next = to;
    const std::vector<int>& outputs = program_.outputs;
    const bool is_returned = std::ranges::find(outputs, to) != outputs.end();
    if (is_returned && tensor(to).role == ProgramTensor::Role::kIntermediate)
      tensor(to).role = ProgramTensor::Role::kOutput;
    if (tensor(from).role == ProgramTensor::Role::kOutput)
      tensor(from).role = ProgramTensor::Role::kIntermediate;
  }
  refresh();
}

int ProgramEditor::compact() {
  const std::vector<int> results = program_.results(), given = program_.given();
  std::set<int> needed(results.begin(), results.end());
  std::vector<ProgramOp> kept;
  for (size_t i = program_.ops.size(); i-- > 0;) {
    ProgramOp& op = program_.ops[i];
    if (op.kind.empty() ||
        std::ranges::none_of(op.outputs, [&](int index) { return needed.contains(index); }))
      continue;
    needed.insert(op.outputs.begin(), op.outputs.end());
    needed.insert(op.inputs.begin(), op.inputs.end());
    kept.push_back(std::move(op));
  }
  const int dropped = static_cast<int>(program_.ops.size() - kept.size());
  std::ranges::reverse(kept);
  program_.ops = std::move(kept);
  needed.insert(given.begin(), given.end());
  for (const ProgramState& state : program_.states) needed.insert(state.start);
  std::vector<int> renumbered(program_.tensors.size(), -1);
  std::vector<ProgramTensor> tensors;
  for (size_t i = 0; i < program_.tensors.size(); ++i) {
    if (!needed.contains(static_cast<int>(i))) continue;
    renumbered[i] = static_cast<int>(tensors.size());
    tensors.push_back(std::move(program_.tensors[i]));
  }
  program_.tensors = std::move(tensors);
  const auto renumber = [&](std::vector<int>& indices) {
    for (int& index : indices)
      if (index >= 0) index = renumbered[static_cast<size_t>(index)];
  };
  for (ProgramOp& op : program_.ops) {
    renumber(op.inputs);
    renumber(op.outputs);
  }
  drop_unused_bodies(program_);
  renumber(program_.inputs);
  renumber(program_.outputs);
  for (ProgramState& state : program_.states)
    for (int* index : {&state.value, &state.next, &state.start})
      if (*index >= 0) *index = renumbered[static_cast<size_t>(*index)];
  refresh();
  return dropped;
}

}  // namespace octet
