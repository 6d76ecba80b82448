// Single ops on the reference backend: run, or refused.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lowering/program/program.h"

namespace octet::reference_ops {

struct Operand {
  Tensor data;  // undefined: absent
  std::optional<TensorQParams> qparams = {};
};
struct Result {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  std::optional<TensorQParams> qparams = {};
};

Program one_op(const std::string& kind, const std::vector<Operand>& inputs,
               const std::vector<Result>& outputs, Attributes attributes);

// Its outputs; a failing REQUIRE gives the reason when the op is refused.
std::vector<Tensor> run_one(const std::string& kind, const std::vector<Operand>& inputs,
                            const std::vector<Result>& outputs, Attributes attributes = {});

// Why it is refused; "accepted" when it is not.
std::string reason(const std::string& kind, const std::vector<Operand>& inputs,
                   const std::vector<Result>& outputs, Attributes attributes = {});

Operand floats(std::vector<int64_t> shape, const std::vector<float>& values);
Operand reals(std::vector<int64_t> shape, const std::vector<double>& values);
Operand longs(std::vector<int64_t> shape, const std::vector<int64_t>& values);
Operand ints32(std::vector<int64_t> shape, const std::vector<int32_t>& values);
Operand bytes(std::vector<int64_t> shape, const std::vector<int8_t>& values,
              std::optional<TensorQParams> qparams = {});
Operand bools(std::vector<int64_t> shape, const std::vector<uint8_t>& values);

// Elements of any dtype but int64, as reals, and those of integers and bools.
std::vector<double> values_of(const Tensor& tensor);
std::vector<int64_t> integers_of(const Tensor& tensor);

// Within 1e-6 of each other, relative and absolute; NaN equals NaN.
bool is_close(const std::vector<double>& got, const std::vector<double>& want);

}  // namespace octet::reference_ops
