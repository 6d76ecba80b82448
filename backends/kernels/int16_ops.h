// Ops of a Program that read or write int16 activations, for any backend: which have a kernel, in
// which memory order, and the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "backends/kernels/int16_terms.h"
#include "core/base/report.h"
#include "lowering/program/program.h"

namespace octet {

// Whether an input or an output is int16: an activation, or the weight of a product of integers.
bool has_int16(const Program& program, const ProgramOp& op);

// Refuses ops without a kernel, with the reason. Inputs and outputs satisfy the op's contract.
Verdict check_int16(const Program& program, const ProgramOp& op);

// What a kernel requires of the inputs and the output: [N, C, spatial] with C innermost, row-major
// order, or one dense order of all tensors of the output's shape.
enum class Int16Order { kChannelsLast, kRows, kDense };
Int16Order int16_order(const ProgramOp& op);

// Copies share the constants.
class Int16Kernel {
 public:
  // op: accepted. inputs: a place for each activation, in order.
  Int16Kernel(const Program& program, const ProgramOp& op, std::span<const Int16Place> inputs,
              const Int16Place& output);
  // from: the activations. scratch: scratch_bytes(). Allocates nothing.
  void run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
           const Parallel& parallel) const;
  int64_t scratch_bytes() const;

 private:
  std::variant<Int16Product, Int16Map, Int16Binary, Int16Pool> kernel_;
};

// The inputs of the op that its kernel reads: all but the weight and bias of a product.
std::vector<size_t> int16_inputs(const ProgramOp& op);

}  // namespace octet
