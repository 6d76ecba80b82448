#include "lowering/import/program_builder.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"

namespace octet {

bool is_number(ValueKind kind) {
  return kind == ValueKind::kSymInt || kind == ValueKind::kSymFloat || kind == ValueKind::kSymBool;
}

DType dtype_of_number(ValueKind kind) {
  return kind == ValueKind::kSymBool    ? DType::kBool
         : kind == ValueKind::kSymFloat ? DType::kFloat64
                                        : DType::kInt64;
}

// ---- tensors

int ProgramBuilder::add_tensor(ProgramTensor tensor) {
  const std::string base = tensor.name;
  for (int suffix = 1; !names_.insert(tensor.name).second; ++suffix)
    tensor.name = fmt::format("{}_{}", base, suffix);
  program.tensors.push_back(std::move(tensor));
  return static_cast<int>(program.tensors.size()) - 1;
}

std::string ProgramBuilder::unique_op_name(const std::string& base) {
  std::string name = base;
  for (int suffix = 1; !op_names_.insert(name).second; ++suffix)
    name = fmt::format("{}_{}", base, suffix);
  return name;
}

int ProgramBuilder::add_constant(const std::string& name, Tensor data,
                                 std::optional<TensorQParams> qparams) {
  data = data.contiguous();
  return add_tensor(
      {name, data.dtype(), data.shape(), std::move(qparams), ProgramTensor::Role::kConstant, data});
}

int ProgramBuilder::add_intermediate(const std::string& name, DType dtype, const Sizes& sizes) {
  ProgramTensor tensor{name, dtype, sizes_.example(sizes), {}, ProgramTensor::Role::kIntermediate,
                       {}};
  if (is_symbolic(sizes)) tensor.sizes = sizes;
  return add_tensor(std::move(tensor));
}

// ---- ops

ProgramOp& ProgramBuilder::emit(const Node& node, const std::vector<Value*>& values,
                                const std::string& kind, std::vector<int> inputs,
                                Attributes attributes) {
  ProgramOp op;
  op.kind = kind;
  op.name = unique_op_name(node.name());
  op.inputs = std::move(inputs);
  for (Value* value : values) {
    if (is_number(value->kind())) {
      op.outputs.push_back(add_intermediate(value->name(), dtype_of_number(value->kind()), {}));
      numbers_[value] = op.outputs.back();
      continue;
    }
    const DType dtype = value->meta ? value->meta->dtype : DType::kFloat32;
    op.outputs.push_back(add_intermediate(value->name(), dtype, sizes_.sizes_of(*value)));
    tensors_[value] = op.outputs.back();
  }
  op.attributes = std::move(attributes);
  op.sources = {node.name()};
  const std::vector<ModuleFrame> frames = module_stack(node);
  if (!frames.empty()) op.module = frames.back().path;
  program.ops.push_back(std::move(op));
  return program.ops.back();
}

int ProgramBuilder::emit_step(const Node& node, const std::string& kind, std::vector<int> inputs,
                              const Sizes& sizes, DType dtype, Attributes attributes) {
  const int output = add_intermediate(fmt::format("{}_{}", node.name(), kind), dtype, sizes);
  ProgramOp op;
  op.kind = kind;
  op.name = unique_op_name(tensor(output).name);
  op.inputs = std::move(inputs);
  op.outputs = {output};
  op.attributes = std::move(attributes);
  op.sources = {node.name()};
  program.ops.push_back(std::move(op));
  return output;
}

void ProgramBuilder::set_size(const std::string& key, const SizeExpr& size) {
  ProgramOp& op = program.ops.back();
  op.attributes[key] = sizes_.example(size);
  if (!size.is_number()) op.sizes[key] = {size};
}

void ProgramBuilder::set_sizes(const std::string& key, const Sizes& sizes) {
  ProgramOp& op = program.ops.back();
  op.attributes[key] = sizes_.example(sizes);
  if (is_symbolic(sizes)) op.sizes[key] = sizes;
}

// ---- values of the graph

int ProgramBuilder::tensor_of(Value* value) {
  const auto found = tensors_.find(value);
  if (found != tensors_.end()) return found->second;
  if (complex_.contains(value))
    throw Error("lower", "%" + value->name(),
                "is complex, want real tensors here; use its real and imaginary parts "
                "(torch.view_as_real)");
  const Tensor* constant = graph_.find_constant(value);
  if (constant == nullptr)
    throw Error("lower", "%" + value->name(),
                "is not a tensor that is known here (a symbol or a custom object), want a tensor; "
                "export with static shapes");
  return tensors_[value] = add_constant(value->name(), *constant);
}

void ProgramBuilder::give(const Node& node, Value* value, int tensor) {
  alias(value, tensor);
  if (program.ops.empty()) return;
  ProgramOp& op = program.ops.back();
  const bool is_of_node =
      op.outputs == std::vector<int>{tensor} && op.sources == std::vector<std::string>{node.name()};
  if (!is_of_node || !names_.insert(value->name()).second) return;
  names_.erase(this->tensor(tensor).name);
  program.tensor(tensor).name = value->name();
  if (value == node.outputs().front()) op.name = unique_op_name(node.name());
  const std::vector<ModuleFrame> frames = module_stack(node);
  if (!frames.empty()) op.module = frames.back().path;
}

int ProgramBuilder::find_number(const Value* value) const {
  const auto found = numbers_.find(value);
  return found == numbers_.end() ? -1 : found->second;
}

void ProgramBuilder::stand_in(const Node& node) {
  for (Value* value : node.outputs()) {
    if (tensors_.contains(value) || value->kind() != ValueKind::kTensor) continue;
    tensors_[value] = add_intermediate(
        value->name(), value->meta ? value->meta->dtype : DType::kFloat32, sizes_.sizes_of(*value));
  }
}

void ProgramBuilder::roll_back(const Mark& mark, const Node& node) {
  program.ops.resize(mark.ops);
  program.bodies.resize(mark.bodies);
  numbers_.clear();
  for (const Value* value : node.outputs()) complex_.erase(value);
}

void ProgramBuilder::put_sizes_first() {
  std::vector<bool> is_size(program.tensors.size(), false);
  const auto follows = [&](const ProgramOp& op) {
    const auto is_known = [&](int index) {
      return index < 0 || is_size[static_cast<size_t>(index)] || tensor(index).is_constant();
    };
    const auto reads_size = [&](int index) {
      return index >= 0 && is_size[static_cast<size_t>(index)];
    };
    return op.is("size") || (std::any_of(op.inputs.begin(), op.inputs.end(), reads_size) &&
                             std::all_of(op.inputs.begin(), op.inputs.end(), is_known));
  };
  std::vector<ProgramOp> first, rest;
  for (ProgramOp& op : program.ops) {
    const bool is_first = follows(op);
    for (int index : op.outputs) is_size[static_cast<size_t>(index)] = is_first;
    (is_first ? first : rest).push_back(std::move(op));
  }
  first.insert(first.end(), std::make_move_iterator(rest.begin()),
               std::make_move_iterator(rest.end()));
  program.ops = std::move(first);
}

}  // namespace octet
