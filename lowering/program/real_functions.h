// The functions of the op `unary` on real numbers, which define the op for lookup tables and
// reference kernels.
#pragma once

#include <span>
#include <string_view>

namespace octet {

struct RealFunction {
  std::string_view name;  // the op's attribute `fn`
  double (*value)(double x, double alpha, double threshold);
  double alpha;  // when the op says none; not read by functions without one
};

// The attribute "threshold", which softplus reads, when the op says none.
inline constexpr double kSoftplusThreshold = 20;

std::span<const RealFunction> real_functions();
// Null for a name that `unary` does not have.
const RealFunction* find_real_function(std::string_view name);

}  // namespace octet
