// The op alone is made a program of each size and asked about.
#include "lowering/support_at_sizes.h"

#include <algorithm>

#include <fmt/format.h>

#include "lowering/program/specialize.h"

namespace octet {
namespace {

bool depends_on_symbols(const Program& program, const ProgramOp& op) {
  const auto is_open = [&](int index) {
    return index >= 0 && !program.tensor(index).sizes.empty();
  };
  return !op.sizes.empty() || std::any_of(op.inputs.begin(), op.inputs.end(), is_open) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_open);
}

}  // namespace

std::vector<SymbolValues> probes_of(const Program& program) {
  if (program.symbols.empty()) return {};
  SymbolValues least, greater;
  for (const ShapeSymbol& symbol : program.symbols) {
    least[symbol.name] = std::min(std::max<int64_t>(symbol.min, 1), symbol.max);
    greater[symbol.name] = std::min(2 * symbol.hint + 1, symbol.max);
  }
  return {least, greater};
}

Verdict SupportAtSizes::accepts(const Program& program, const ProgramOp& op) const {
  const Verdict verdict = support_.accepts(program, op);
  if (!verdict || !depends_on_symbols(program, op)) return verdict;
  for (const SymbolValues& values : probes_of(program)) {
    const Program fixed = specialize_op(program, op, values);
    const Verdict other = support_.accepts(fixed, fixed.ops[0]);
    if (!other) return Verdict::refuse(fmt::format("{} (at {})", other.reason(), describe(values)));
  }
  return verdict;
}

}  // namespace octet
