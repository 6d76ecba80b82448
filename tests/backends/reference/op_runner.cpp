#include "tests/backends/reference/op_runner.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "backends/conformance/program_builder.h"
#include "backends/reference/elements.h"
#include "backends/runtime/session.h"

namespace octet::reference_ops {

Program one_op(const std::string& kind, const std::vector<Operand>& inputs,
               const std::vector<Result>& outputs, Attributes attributes) {
  Program program;
  const auto add = [&](ProgramTensor tensor) {
    program.tensors.push_back(std::move(tensor));
    return static_cast<int>(program.tensors.size()) - 1;
  };
  ProgramOp op;
  op.kind = op.name = kind;
  op.attributes = std::move(attributes);
  for (const Operand& input : inputs) {
    if (!input.data.defined()) {
      op.inputs.push_back(-1);
      continue;
    }
    op.inputs.push_back(add({"x" + std::to_string(op.inputs.size()),
                             input.data.dtype(),
                             input.data.shape(),
                             input.qparams,
                             ProgramTensor::Role::kInput,
                             {}}));
    program.inputs.push_back(op.inputs.back());
  }
  for (const Result& output : outputs) {
    op.outputs.push_back(add({"y" + std::to_string(op.outputs.size()),
                              output.dtype,
                              output.shape,
                              output.qparams,
                              ProgramTensor::Role::kOutput,
                              {}}));
    program.outputs.push_back(op.outputs.back());
  }
  program.ops.push_back(std::move(op));
  verify(program);
  return program;
}

std::vector<Tensor> run_one(const std::string& kind, const std::vector<Operand>& inputs,
                            const std::vector<Result>& outputs, Attributes attributes) {
  const Program program = one_op(kind, inputs, outputs, std::move(attributes));
  REQUIRE(refusal(program, "reference").value_or("accepted") == "accepted");
  std::vector<Tensor> tensors;
  for (const Operand& input : inputs)
    if (input.data.defined()) tensors.push_back(input.data);
  return Session(with_one_segment(program, "reference")).run(tensors);
}

std::string reason(const std::string& kind, const std::vector<Operand>& inputs,
                   const std::vector<Result>& outputs, Attributes attributes) {
  return refusal(one_op(kind, inputs, outputs, std::move(attributes)), "reference")
      .value_or("accepted");
}

Operand floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {Tensor::from<float>(DType::kFloat32, std::move(shape), values)};
}
Operand reals(std::vector<int64_t> shape, const std::vector<double>& values) {
  return {Tensor::from<double>(DType::kFloat64, std::move(shape), values)};
}
Operand longs(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return {Tensor::from<int64_t>(DType::kInt64, std::move(shape), values)};
}
Operand ints32(std::vector<int64_t> shape, const std::vector<int32_t>& values) {
  return {Tensor::from<int32_t>(DType::kInt32, std::move(shape), values)};
}
Operand bytes(std::vector<int64_t> shape, const std::vector<int8_t>& values,
              std::optional<TensorQParams> qparams) {
  return {Tensor::from<int8_t>(DType::kInt8, std::move(shape), values), std::move(qparams)};
}
Operand bools(std::vector<int64_t> shape, const std::vector<uint8_t>& values) {
  return {Tensor::from<uint8_t>(DType::kBool, std::move(shape), values)};
}

std::vector<double> values_of(const Tensor& tensor) {
  ProgramTensor info;
  info.dtype = tensor.dtype();
  info.shape = tensor.shape();
  const reference::Reals<double> values(tensor, info);
  return {values.data(), values.data() + values.size()};
}

std::vector<int64_t> integers_of(const Tensor& tensor) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    values.push_back(tensor.dtype() == DType::kInt64  ? tensor.data<int64_t>()[i]
                     : tensor.dtype() == DType::kBool ? int64_t{tensor.data<bool>()[i]}
                                                      : reference::integer_at(tensor, i));
  return values;
}

bool is_close(const std::vector<double>& got, const std::vector<double>& want) {
  bool is_equal = got.size() == want.size();
  for (size_t i = 0; is_equal && i < got.size(); ++i) {
    INFO(i << ": got " << got[i] << ", want " << want[i]);
    is_equal = (std::isnan(got[i]) && std::isnan(want[i])) || got[i] == want[i] ||
               std::abs(got[i] - want[i]) <= 1e-6 * (1 + std::abs(want[i]));
    CHECK(is_equal);
  }
  return is_equal;
}

}  // namespace octet::reference_ops
