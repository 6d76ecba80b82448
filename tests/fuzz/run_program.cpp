// See the header.
#include "tests/fuzz/run_program.h"

#include <algorithm>

#include "backends/runtime/session.h"
#include "core/base/error.h"
#include "lowering/program/specialize.h"

namespace octet::fuzz {
namespace {

constexpr size_t kMemory = 1 << 18;  // bytes: so that no run takes long
constexpr size_t kMostOps = 64, kMostRounds = 8;

size_t count_ops(const Program& program) {
  size_t count = program.ops.size();
  for (const Program& body : program.bodies) count += count_ops(body);
  return count;
}

void run_at_shapes_of(Session& session, const Program& program) {
  std::vector<Tensor> inputs;
  for (int index : program.inputs) {
    const ProgramTensor* info = index < 0 ? nullptr : &program.tensor(index);
    inputs.push_back(info == nullptr ? Tensor() : Tensor::zeros(info->dtype, info->shape));
  }
  for (int i = 0; i < 2; ++i) session.run(inputs);
  session.reset_states();
  session.run(inputs);
}

}  // namespace

void run_program(Program program) {
  if (count_ops(program) > kMostOps) return;
  Session session(std::move(program), {.memory_limit = kMemory, .loop_limit = kMostRounds});
  run_at_shapes_of(session, session.program());
  if (session.program().symbols.empty()) return;
  SymbolValues least;
  for (const ShapeSymbol& symbol : session.program().symbols) least[symbol.name] = symbol.min;
  const Program smaller = specialize(session.program(), least);
  if (peak_bytes(smaller) <= kMemory) run_at_shapes_of(session, smaller);
}

}  // namespace octet::fuzz
