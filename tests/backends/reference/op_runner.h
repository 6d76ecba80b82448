// Runs single ops on the reference backend, or says why it refuses them.
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

// The outputs of the op; when it is refused, a failing REQUIRE gives the reason.
std::vector<Tensor> run_one(const std::string& kind, const std::vector<Operand>& inputs,
                            const std::vector<Result>& outputs, Attributes attributes = {});

// Why the op is refused, or "accepted".
std::string reason(const std::string& kind, const std::vector<Operand>& inputs,
                   const std::vector<Result>& outputs, Attributes attributes = {});

Operand floats(std::vector<int64_t> shape, const std::vector<float>& values);
Operand reals(std::vector<int64_t> shape, const std::vector<double>& values);
Operand longs(std::vector<int64_t> shape, const std::vector<int64_t>& values);
Operand ints32(std::vector<int64_t> shape, const std::vector<int32_t>& values);
Operand bytes(std::vector<int64_t> shape, const std::vector<int8_t>& values,
              std::optional<TensorQParams> qparams = {});
Operand bools(std::vector<int64_t> shape, const std::vector<uint8_t>& values);

// Elements as reals, of any dtype but int64; and elements of integers and bools.
std::vector<double> values_of(const Tensor& tensor);
std::vector<int64_t> integers_of(const Tensor& tensor);

// Checks that they agree within 1e-6, relative and absolute; NaN equals NaN.
bool is_close(const std::vector<double>& got, const std::vector<double>& want);

}  // namespace octet::reference_ops
