// Functions of floats, element by element, for backends that lack them. Frequent ones are loops of
// vector instructions, the others go through double one by one, as in backends/reference.
#pragma once

#include <cstdint>

#include "lowering/program/program.h"
#include "lowering/program/real_functions.h"

namespace octet {

using FloatLoop = void (*)(const float* x, float* y, int64_t count);

struct FloatFunction {
  FloatLoop loop = nullptr;                // null: `function`
  const RealFunction* function = nullptr;  // with these two
  double alpha = 0;
  double threshold = 0;

  void operator()(const float* x, float* y, int64_t count) const;
};

// Of an op `unary`; nothing for a function that it does not have.
std::optional<FloatFunction> find_float_function(const ProgramOp& unary);

}  // namespace octet
