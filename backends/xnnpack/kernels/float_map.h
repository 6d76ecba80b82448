// Functions of floats, element by element: those that XNNPACK lacks. Frequent ones are loops of
// vector instructions, the others go through double one by one, as in backends/reference.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/xnnpack/functions.h"
#include "lowering/program/real_functions.h"

namespace octet::xnnpack {

using FloatLoop = void (*)(const float* x, float* y, int64_t count);

struct FloatMap {
  int64_t count = 0;
  FloatLoop loop = nullptr;                // null: `function`
  const RealFunction* function = nullptr;  // with these two
  double alpha = 0;
  double threshold = 0;
};

// Null for functions without a loop of their own.
FloatLoop find_float_loop(std::string_view fn);

// Allocates nothing. pool: null for one thread.
void run(const FloatMap& map, const std::byte* from, std::byte* to, pthreadpool_t pool);

}  // namespace octet::xnnpack
