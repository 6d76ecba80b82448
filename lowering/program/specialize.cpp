// Formulas become numbers; everything else stays.
#include "lowering/program/specialize.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.h"
#include "lowering/program/symbols.h"

namespace octet {

std::string describe(const SymbolValues& values) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : values) texts.push_back(fmt::format("{} = {}", name, value));
  return fmt::format("{}", fmt::join(texts, ", "));
}

namespace {

ProgramTensor fixed(ProgramTensor tensor, const SymbolValues& values) {
  if (tensor.sizes.empty()) return tensor;
  tensor.shape = evaluate(tensor.sizes, values);
  tensor.sizes.clear();
  if (!is_sane_shape(tensor.dtype, tensor.shape))
    throw Error("shape", tensor.name,
                fmt::format("becomes {} at {}, which no tensor can be; give other sizes",
                            tensor.shape, describe(values)));
  return tensor;
}

ProgramOp fixed(ProgramOp op, const SymbolValues& values) {
  for (const auto& [key, sizes] : op.sizes) {
    const std::vector<int64_t> numbers = evaluate(sizes, values);
    Attribute& attribute = op.attributes.at(key);
    if (std::holds_alternative<int64_t>(attribute)) {
      attribute = numbers.at(0);
    } else {
      attribute = numbers;
    }
  }
  op.sizes.clear();
  return op;
}

}  // namespace

Program specialize(const Program& program, const SymbolValues& values) {
  Program result;
  result.backend = program.backend;
  result.versions = program.versions;
  for (const ProgramTensor& tensor : program.tensors)
    result.tensors.push_back(fixed(tensor, values));
  for (const ProgramOp& op : program.ops) result.ops.push_back(fixed(op, values));
  result.segments = program.segments;
  result.inputs = program.inputs;
  result.outputs = program.outputs;
  result.states = program.states;
  for (const Program& body : program.bodies) result.bodies.push_back(specialize(body, values));
  result.reasons = program.reasons;
  return result;
}

Program specialize_op(const Program& program, const ProgramOp& op, const SymbolValues& values) {
  Program result;
  ProgramOp only = fixed(op, values);
  for (std::vector<int>* indices : {&only.inputs, &only.outputs})
    for (int& index : *indices) {
      if (index < 0) continue;
      result.tensors.push_back(fixed(program.tensor(index), values));
      index = static_cast<int>(result.tensors.size()) - 1;
    }
  result.ops.push_back(std::move(only));
  return result;
}

}  // namespace octet
