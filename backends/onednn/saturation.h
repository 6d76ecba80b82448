// x86 CPUs without VNNI add u8 x s8 products in pairs in 16 bits, which cut off at 32767: oneDNN's
// results are then wrong by any number of steps. Here is known which products can reach that; those
// are computed in floats.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/base/tensor.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet::onednn {

// Whether oneDNN's int8 kernels on this CPU do so. ONEDNN_MAX_CPU_ISA can lower what oneDNN takes
// the CPU for.
bool sums_in_16_bits();

// For each tensor, the highest byte that it holds when it is kept as u8 (s8: 128 more); 255 where
// nothing bounds it. Ranges narrower than the type (reduce_range) and clamps are followed through
// ops that only move or select values.
std::vector<uint8_t> highest_bytes(const Program& program);

// The greatest |w| of int8 weights: 0 to 128.
int greatest_magnitude(const Tensor& weights);

// Whether the sum of two products of bytes of at most `highest` and weights of at most `magnitude`
// always fits.
bool fits_16_bits(uint8_t highest, int magnitude);

// Which products of a program are computed in floats for this reason.
class Saturation {
 public:
  explicit Saturation(const Program& program) : program_(program) {}
  // The greatest byte that the tensor can hold, kept as u8.
  uint8_t highest_byte(int index);
  // Whether the product of the op's first input and weights of at most `magnitude` is one. Such ops
  // are remembered.
  bool may_saturate(const ProgramOp& op, int magnitude);
  bool may_saturate(const ProgramOp& op, const Tensor& weights);  // int8
  const std::set<std::string>& ops() const { return ops_; }

 private:
  const Program& program_;
  std::vector<uint8_t> highest_bytes_;  // per tensor; empty until it is asked for
  std::set<std::string> ops_;           // names
};

// Tells about ops that are computed in floats for this reason; `names` is not empty.
Warning saturation_warning(const std::set<std::string>& names);

}  // namespace octet::onednn
