// Says in which type products of floats are computed: an attribute of conv, conv_transpose, linear
// and matmul.
#pragma once

#include "lowering/program/op_contract.h"

namespace octet {

// kBfloat16: factors are rounded to bfloat16, sums are float32.
enum class FloatCompute { kFloat32, kBfloat16 };

namespace attr {
// A request: a CPU without instructions for it computes in float32. Absent in most programs.
inline constexpr Text kCompute{"compute"};
}  // namespace attr

inline constexpr const char* kBfloat16Name = "bfloat16";

}  // namespace octet
