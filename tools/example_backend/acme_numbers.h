// The NPU's numbers: int8 with one scale and zero point 0, weights from -127 to 127, and sums that
// become int8 by a multiplication of integers and a shift.
#pragma once

#include <optional>

#include "acme_device.h"
#include "lowering/program/backend.h"

namespace acme {

constexpr int64_t kGreatestDepth = 1 << 16;
constexpr int64_t kTableBytes = 256;

struct Range {
  int32_t low, high;
};

octet::Verdict check_activation(const octet::ProgramTensor& tensor);
octet::Verdict check_weight(const octet::ProgramTensor& tensor);
// The input and the output are activations of one scale.
octet::Verdict check_same_numbers(const octet::Program& program, const octet::ProgramOp& op);
// The bias of a product, input 2, is a constant that fits beside the sums.
octet::Verdict check_bias(const octet::Program& program, const octet::ProgramOp& op);
octet::Verdict check_sram(int64_t bytes);

double scale_of(const octet::ProgramTensor& activation);
// The step of a product's sums: scale(x) * scale(w).
double sum_step(const octet::Program& program, const octet::ProgramOp& op);
// nullopt if the value is not in the NPU's range.
std::optional<Ratio> find_ratio(double value);
// The bias of a product in steps of its sums, int32 [channels]; zeros without one.
octet::Tensor bias_in_steps(const octet::Program& program, const octet::ProgramOp& op,
                            int64_t channels);
// The range that a relu or another clamp leaves, in steps of y.
Range post_range(const octet::ProgramOp& op, const octet::ProgramTensor& y);

// The function of one element that the op computes; null if the NPU lacks it.
using Function = double (*)(const octet::ProgramOp& op, double x);
Function find_function(const octet::ProgramOp& op);
// Its values, int8 [256], for x from -128 to 127.
octet::Tensor table_of(const octet::Program& program, const octet::ProgramOp& op);

}  // namespace acme
