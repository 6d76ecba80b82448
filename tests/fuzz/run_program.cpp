// See the header.
#include "tests/fuzz/run_program.h"

#include <algorithm>

#include "backends/runtime/session.h"
#include "core/error.h"

namespace octet::fuzz {
namespace {

constexpr size_t kMemory = 1 << 16;  // bytes: so that no run takes long
constexpr size_t kMostOps = 64;

}  // namespace

void run_program(Program program) {
  if (program.ops.size() > kMostOps) return;
  Session session(std::move(program), {.memory_limit = kMemory});
  std::vector<Tensor> inputs;
  for (int index : session.program().inputs) {
    const ProgramTensor* info = index < 0 ? nullptr : &session.program().tensors[static_cast<size_t>(index)];
    inputs.push_back(info == nullptr ? Tensor() : Tensor::zeros(info->dtype, info->shape));
  }
  for (int i = 0; i < 2; ++i) session.run(inputs);
}

}  // namespace octet::fuzz
