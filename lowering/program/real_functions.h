// Defines the functions of the op `unary` on real numbers, from which lookup tables and reference
// kernels are made.
#pragma once

#include <span>
#include <string_view>

namespace octet {

struct RealFunction {
  std::string_view name;  // the op's attribute `fn`
  double (*value)(double x, double alpha, double threshold);
  double alpha;  // default; ignored by functions without alpha
};

std::span<const RealFunction> real_functions();
// Null if `unary` has no function of that name.
const RealFunction* find_real_function(std::string_view name);

}  // namespace octet
