#include "annotate/reference/representation.h"

#include <map>
#include <unordered_set>

#include <fmt/format.h>

#include "annotate/graph/qdq_nodes.h"
#include "core/passes/remove_dead.h"

namespace octet {
namespace {

// Replaces the result of `root`; the nodes in front of it go when nothing else uses them.
void replace(Graph& graph, Node& root, Value* value) { graph.replace_uses(root.output(), value); }

int apply(Graph& graph, const ReferenceRule& rule, Compat compat) {
  const Pattern pattern = parse_pattern(rule.pattern);
  int rewrites = 0;
  for (Node* node : graph.nodes()) {
    const Value* result = node->output_or_null();
    if (result == nullptr || result->is_unused()) continue;
    const std::optional<Match> found = match(pattern, *node);
    Value* value = found ? rule.build(graph, *found, compat) : nullptr;
    if (value == nullptr) continue;
    replace(graph, *node, value);
    ++rewrites;
  }
  if (rewrites > 0) remove_dead(graph);
  return rewrites;
}

int apply_to_single_ops(Graph& graph, Compat compat, Report& report) {
  std::map<std::string, int> left;
  int rewrites = 0;
  for (Node* node : graph.nodes()) {
    if (node->target().starts_with("torchao.quantize_affine") ||
        node->target().starts_with("torchao.dequantize_affine"))
      ++left["affine blocks"];
    if (!is_quantize(node) && !is_dequantize(node)) continue;
    Value* value = is_quantize(node) ? build_reference_quantize(graph, *node, compat)
                                     : build_reference_dequantize(graph, *node, compat);
    if (value == nullptr) {
      const Argument* dtype = node->find_argument("dtype");
      ++left[dtype != nullptr && dtype->find<DType>() != nullptr
                 ? std::string(name_of(*dtype->find<DType>()))
                 : "unknown"];
      continue;
    }
    replace(graph, *node, value);
    graph.erase(*node);
    ++rewrites;
  }
  for (const auto& [dtype, count] : left)
    report.note(fmt::format(
        "reference: {} quantize and dequantize ops of {} stay, they have no integer form here",
        count, dtype));
  return rewrites;
}

}  // namespace

int to_reference_representation(Graph& graph, Compat compat, Report& report) {
  int rewrites = 0;
  for (const ReferenceRule& rule : compute_reference_rules())
    if (rule.in_torchao || compat == Compat::kNone) rewrites += apply(graph, rule, compat);
  rewrites += apply_to_single_ops(graph, compat, report);
  remove_dead(graph, DeadInputs::kRemove);
  return rewrites;
}

}  // namespace octet
