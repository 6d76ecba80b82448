// Functions of floats, element by element, for backends that lack them. Frequent ones are loops of
// vector instructions; the others are computed in double one by one, as in backends/reference.
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
  FloatLoop loop = nullptr;                // null: `function`
  const RealFunction* function = nullptr;  // with these two
  double alpha = 0;
  double threshold = 0;

  void operator()(const float* x, float* y, int64_t count) const;
};

// The function of an op `unary`; nothing where the op names an unknown one.
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
