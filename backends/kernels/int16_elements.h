// Elementwise ops and pools of int16 activations. They compute in pieces that stay in the L1 cache,
// with the bits of backends/reference; functions of reals by vectorized loops (float_loops.h) are
// within one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/kernels/float_loops.h"
#include "backends/kernels/int16_forms.h"
#include "backends/kernels/parallel.h"
#include "backends/kernels/strided.h"

namespace octet {

// y = f(x) for `count` elements in one order: a function, or none (clamps and conversions).
struct Int16Map {
  int64_t count = 0;
  RealForm x, y;
  RealLimits limits;
  bool is_double = false;  // as clamps in backends/reference; others compute in float
  std::optional<FloatFunction> function;

  // from: x. Allocates nothing, as all kernels here.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

enum class Int16Arithmetic { kAdd, kMul, kDiv, kMinimum, kMaximum };

// y = a op b, in double; a + factor * b.
struct Int16Binary {
  Int16Arithmetic op = Int16Arithmetic::kAdd;
  double factor = 1;
  RealForm a, b, y;
  RealLimits limits;
  Walk walk;  // over y, a, b; the innermost run of y has no gaps

  // from: a, b.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

// Averages or maxima over windows of x [images, height, width, channels]. The windows of each
// output position along one axis are [begin, end); of averages `count` is the divisor's share.
struct Int16Pool {
  struct Window {
    int64_t begin, end, count;
  };
  int64_t images = 1, height = 1, width = 1, channels = 1;
  std::vector<Window> lines, columns;
  bool is_average = true;  // maxima: x and y have one form
  double divisor = 0;      // 0: the product of the windows' counts
  RealForm x, y;
  RealLimits limits;

  // from: x.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
};

}  // namespace octet
