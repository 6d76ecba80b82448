#include "backends/runtime/plugin_program.h"

#include <set>

#include "backends/runtime/dtype_numbers.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

octet_plugin_attribute attribute_of(const std::string& name, const Attribute& value) {
  octet_plugin_attribute attribute{};
  attribute.name = name.c_str();
  if (const bool* flag = std::get_if<bool>(&value)) {
    attribute.type = OCTET_PLUGIN_BOOL;
    attribute.integer = *flag ? 1 : 0;
  } else if (const int64_t* integer = std::get_if<int64_t>(&value)) {
    attribute.type = OCTET_PLUGIN_INTEGER;
    attribute.integer = *integer;
  } else if (const double* real = std::get_if<double>(&value)) {
    attribute.type = OCTET_PLUGIN_REAL;
    attribute.real = *real;
  } else if (const std::string* text = std::get_if<std::string>(&value)) {
    attribute.type = OCTET_PLUGIN_TEXT;
    attribute.count = text->size();
    attribute.text = text->c_str();
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    attribute.type = OCTET_PLUGIN_INTEGERS;
    attribute.count = integers->size();
    attribute.integers = integers->data();
  } else {
    const auto& reals = std::get<std::vector<double>>(value);
    attribute.type = OCTET_PLUGIN_REALS;
    attribute.count = reals.size();
    attribute.reals = reals.data();
  }
  return attribute;
}

std::vector<int> inputs_of(const Program& program, const ProgramOp& op) {
  std::set<int> inputs;
  for (int index : op.inputs)
    if (index >= 0 && !program.tensor(index).is_constant()) inputs.insert(index);
  return {inputs.begin(), inputs.end()};
}

}  // namespace

PluginProgram::PluginProgram(const Program& program, std::vector<const ProgramOp*> ops,
                             std::span<const int> inputs, std::span<const int> outputs,
                             bool reads_compact)
    : program_(program), reads_compact_(reads_compact), indices_(program.tensors.size(), -1) {
  inputs_ = indices_of(inputs);
  for (const ProgramOp* op : ops) add_op(*op);
  outputs_ = indices_of(outputs);
  view_.size = sizeof(view_);
  view_.tensor_count = tensor_list_.size();
  view_.tensors = tensor_list_.data();
  view_.op_count = op_list_.size();
  view_.ops = op_list_.data();
  view_.input_count = inputs_.size();
  view_.inputs = inputs_.data();
  view_.output_count = outputs_.size();
  view_.outputs = outputs_.data();
}

PluginProgram::PluginProgram(const Program& program, const ProgramOp& op, bool reads_compact)
    : PluginProgram(program, {&op}, inputs_of(program, op), op.outputs, reads_compact) {}

std::vector<int> PluginProgram::indices_of(std::span<const int> tensors) {
  std::vector<int> indices;
  for (int tensor : tensors) indices.push_back(index_of(tensor));
  return indices;
}

int PluginProgram::index_of(int tensor) {
  if (tensor < 0) return -1;
  int& index = indices_[static_cast<size_t>(tensor)];
  if (index < 0) {
    index = static_cast<int>(tensor_list_.size());
    tensor_list_.push_back(add_tensor(program_.tensor(tensor)));
  }
  return index;
}

const octet_plugin_tensor* PluginProgram::add_tensor(const ProgramTensor& given) {
  const ProgramTensor& tensor = kept_tensors_.emplace_back(given);
  octet_plugin_tensor& view = tensors_.emplace_back();
  view = {};
  view.size = sizeof(view);
  view.name = tensor.name.c_str();
  view.dtype = number_of(tensor.dtype);
  view.rank = static_cast<int>(tensor.shape.size());
  view.shape = tensor.shape.data();
  view.bytes = tensor.nbytes();
  view.is_constant = tensor.is_constant() ? 1 : 0;
  view.axis = -1;
  if (tensor.qparams) {
    view.qparam_count = tensor.qparams->scale.size();
    view.scales = tensor.qparams->scale.data();
    view.zero_points = tensor.qparams->zero_point.data();
    view.axis = tensor.qparams->axis;
  }
  if (!tensor.is_constant()) return &view;
  if (tensor.stored && reads_compact_) {
    view.compact_values = add_values(tensor.name, tensor.stored->integers());
    if (tensor.stored->scale.defined())
      view.compact_scales = add_values(tensor.name, tensor.stored->scales());
    if (tensor.stored->zero_point.defined())
      view.compact_zero_points = add_values(tensor.name, tensor.stored->zero_points());
  } else {
    const Tensor& data = kept_data_.emplace_back(constant_data(tensor).contiguous());
    if (data.numel() != 0) view.data = data.raw();
  }
  return &view;
}

// A tensor that no op names.
const octet_plugin_tensor* PluginProgram::add_values(const std::string& name,
                                                     const Tensor& values) {
  ProgramTensor tensor;
  tensor.name = name;
  tensor.dtype = values.dtype();
  tensor.shape = values.shape();
  tensor.role = ProgramTensor::Role::kConstant;
  tensor.data = values;
  return add_tensor(tensor);
}

void PluginProgram::add_op(const ProgramOp& given) {
  ProgramOp& op = kept_ops_.emplace_back(given);
  op.inputs = indices_of(given.inputs);
  op.outputs = indices_of(given.outputs);
  std::vector<octet_plugin_attribute>& attributes = attributes_.emplace_back();
  for (const auto& [name, value] : op.attributes) attributes.push_back(attribute_of(name, value));
  octet_plugin_op& view = ops_.emplace_back();
  view = {};
  view.size = sizeof(view);
  view.kind = op.kind.c_str();
  view.name = op.name.c_str();
  view.input_count = op.inputs.size();
  view.inputs = op.inputs.data();
  view.output_count = op.outputs.size();
  view.outputs = op.outputs.data();
  view.attribute_count = attributes.size();
  view.attributes = attributes.data();
  view.macs = op.macs;
  op_list_.push_back(&view);
}

const ProgramTensor* find_unknown_dtype(const Program& program, const ProgramOp& op) {
  for (const std::vector<int>* indices : {&op.inputs, &op.outputs})
    for (int index : *indices)
      if (index >= 0 && number_of(program.tensor(index).dtype) == OCTET_OTHER)
        return &program.tensor(index);
  return nullptr;
}

}  // namespace octet
