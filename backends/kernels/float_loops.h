// Elementwise functions of floats for backends that lack them. Frequent functions are vectorized
// loops (vector_math.h); the others are computed in double, one element at a time, as in
// backends/reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "backends/kernels/parallel.h"
#include "lowering/program/program.h"
#include "lowering/program/real_functions.h"

namespace octet {

using FloatLoop = void (*)(const float* x, float* y, int64_t count);

struct FloatFunction {
  FloatLoop loop = nullptr;                // null: use `function`
  const RealFunction* function = nullptr;  // with alpha and threshold
  double alpha = 0;
  double threshold = 0;

  void operator()(const float* x, float* y, int64_t count) const;
};

// Finds the function of a `unary` op; nullopt when the op names an unknown function.
std::optional<FloatFunction> find_float_function(const ProgramOp& unary);

// y = function(x), element by element.
struct FloatMap {
  int64_t count = 0;
  FloatFunction function;

  void run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
           const Parallel& parallel) const {
    parallel.chunks(count, [&](int64_t first, int64_t last) {
      function(reinterpret_cast<const float*>(from[0]) + first,
               reinterpret_cast<float*>(to) + first, last - first);
    });
  }
};

}  // namespace octet
