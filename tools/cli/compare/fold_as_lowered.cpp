#include "tools/cli/compare/fold_as_lowered.h"

#include <string>
#include <unordered_set>

#include "core/passes/fold_conv_bn.h"
#include "core/passes/widen_half.h"

namespace octet {

std::unique_ptr<Graph> fold_as_lowered(const Graph& graph, const Program& program) {
  std::unordered_set<std::string> ops;
  for (const ProgramOp& op : program.ops) ops.insert(op.name);
  std::unique_ptr<Graph> copy = clone(graph);
  if (computes_in_half(*copy)) widen_half(*copy);
  fold_conv_bn(*copy, {.only = [&](const Node& node) { return !ops.contains(node.name()); }});
  return copy;
}

}  // namespace octet
