// Finds products that would saturate. x86 CPUs without VNNI add pairs of u8 x s8 products in 16
// bits, which saturate at 32767, so oneDNN's results may be off by any number of steps. Such
// products are computed in floats.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/base/tensor.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet::onednn {

// Whether oneDNN's int8 kernels do so on this CPU. ONEDNN_MAX_CPU_ISA can lower the instruction set
// that oneDNN uses.
bool sums_in_16_bits();

// For each tensor, the highest byte that it holds when stored as u8 (s8: plus 128); 255 where
// nothing bounds it. Follows clamps and ranges narrower than the type (reduce_range) through ops
// that only move or select values.
std::vector<uint8_t> highest_bytes(const Program& program);

// The greatest |w| of int8 weights: 0 to 128.
int greatest_magnitude(const Tensor& weights);

// Whether the sum of two products of bytes up to `highest` and weights up to `magnitude` always
// fits.
bool fits_16_bits(uint8_t highest, int magnitude);

// The products of a program that are computed in floats because they might saturate.
class Saturation {
 public:
  explicit Saturation(const Program& program) : program_(program) {}
  // The highest byte that the tensor holds, stored as u8.
  uint8_t highest_byte(int index);
  // Whether products of the op's first input and weights up to `magnitude` might saturate. Records
  // such ops.
  bool may_saturate(const ProgramOp& op, int magnitude);
  bool may_saturate(const ProgramOp& op, const Tensor& weights);  // int8
  const std::set<std::string>& ops() const { return ops_; }

 private:
  const Program& program_;
  std::vector<uint8_t> highest_bytes_;  // per tensor; empty until first used
  std::set<std::string> ops_;           // names
};

// Warns that the ops `names` (not empty) are computed in floats.
Warning saturation_warning(const std::set<std::string>& names);

}  // namespace octet::onednn
