#include "backends/plugin/program_view.h"

#include <numeric>
#include <set>

#include <fmt/format.h>

#include "backends/runtime/dtype_numbers.h"
#include "core/base/error.h"

namespace octet {
namespace {

Tensor tensor_of(const octet_plugin_tensor& view) {
  const std::optional<DType> dtype = find_dtype(view.dtype);
  if (!dtype)
    throw Error("plugin", view.name,
                fmt::format("has the unknown dtype {}; build the plug-in with the Octet that "
                            "loads it",
                            static_cast<int>(view.dtype)));
  std::vector<int64_t> shape(view.shape, view.shape + view.rank);
  if (view.data == nullptr) return Tensor::zeros(*dtype, std::move(shape));  // without elements
  auto storage = std::make_shared<Storage>();
  storage->data = static_cast<std::byte*>(const_cast<void*>(view.data));
  storage->size = view.bytes;
  std::vector<int64_t> strides = contiguous_strides(shape);
  return Tensor(std::move(storage), *dtype, std::move(shape), std::move(strides), 0);
}

ProgramTensor program_tensor_of(const octet_plugin_tensor& view) {
  ProgramTensor tensor;
  tensor.name = view.name;
  const std::optional<DType> dtype = find_dtype(view.dtype);
  if (!dtype) tensor_of(view);  // throws
  tensor.dtype = *dtype;
  tensor.shape.assign(view.shape, view.shape + view.rank);
  if (view.qparam_count != 0)
    tensor.qparams = TensorQParams{{view.scales, view.scales + view.qparam_count},
                                   {view.zero_points, view.zero_points + view.qparam_count},
                                   view.axis};
  if (view.is_constant == 0) return tensor;
  tensor.role = ProgramTensor::Role::kConstant;
  if (view.compact_values == nullptr) {
    tensor.data = tensor_of(view);
    return tensor;
  }
  StoredConstant stored{tensor_of(*view.compact_values), {}, {}};
  if (view.compact_scales != nullptr) stored.scale = tensor_of(*view.compact_scales);
  if (view.compact_zero_points != nullptr) stored.zero_point = tensor_of(*view.compact_zero_points);
  tensor.stored = std::move(stored);
  return tensor;
}

Attribute attribute_of(const octet_plugin_attribute& view) {
  switch (view.type) {
    case OCTET_PLUGIN_BOOL:
      return view.integer != 0;
    case OCTET_PLUGIN_INTEGER:
      return view.integer;
    case OCTET_PLUGIN_REAL:
      return view.real;
    case OCTET_PLUGIN_TEXT:
      return std::string(view.text, view.count);
    case OCTET_PLUGIN_INTEGERS:
      return std::vector<int64_t>(view.integers, view.integers + view.count);
    case OCTET_PLUGIN_REALS:
      return std::vector<double>(view.reals, view.reals + view.count);
  }
  throw Error("plugin", view.name,
              fmt::format("has the unknown type {}; build the plug-in with the Octet that loads it",
                          static_cast<int>(view.type)));
}

ProgramOp op_of(const octet_plugin_op& view) {
  ProgramOp op;
  op.kind = view.kind;
  op.name = view.name;
  op.inputs.assign(view.inputs, view.inputs + view.input_count);
  op.outputs.assign(view.outputs, view.outputs + view.output_count);
  for (size_t i = 0; i < view.attribute_count; ++i)
    op.attributes.emplace(view.attributes[i].name, attribute_of(view.attributes[i]));
  op.sources = {op.name};
  op.macs = view.macs;
  return op;
}

void set_roles(Program& program) {
  using Role = ProgramTensor::Role;
  for (int index : program.outputs) program.tensor(index).role = Role::kOutput;
  for (int index : program.inputs) program.tensor(index).role = Role::kInput;
}

}  // namespace

Program program_of(const octet_plugin_program& view, const std::string& backend) {
  Program program;
  program.backend = backend;
  for (size_t i = 0; i < view.tensor_count; ++i)
    program.tensors.push_back(program_tensor_of(*view.tensors[i]));
  for (size_t i = 0; i < view.op_count; ++i) program.ops.push_back(op_of(*view.ops[i]));
  program.inputs.assign(view.inputs, view.inputs + view.input_count);
  program.outputs.assign(view.outputs, view.outputs + view.output_count);
  set_roles(program);
  Segment& segment = program.segments.emplace_back();
  segment.backend = backend;
  segment.ops.resize(program.ops.size());
  std::iota(segment.ops.begin(), segment.ops.end(), 0);
  segment.inputs = program.inputs;
  segment.outputs = program.outputs;
  return program;
}

std::string find_unknown(const ProgramOp& op) {
  if (find_contract(op.kind) == nullptr)
    return fmt::format("the plug-in's Octet does not know ops of the kind {}", op.kind);
  std::string fault = find_attribute_fault(op);
  if (fault.empty()) fault = find_contract_fault(op);
  return fault.empty() ? "" : fmt::format("the plug-in's Octet does not know this op: {}", fault);
}

}  // namespace octet
