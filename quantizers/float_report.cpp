// The reasons, the most specific first.
#include "quantizers/float_report.h"

#include <algorithm>

#include <fmt/format.h>

namespace octet {

namespace {

bool is_one_of(const Node& node, std::span<const std::string> ops) {
  return std::any_of(ops.begin(), ops.end(), [&](const std::string& op) { return node.is(op); });
}

std::string reason_for(const Node& node, const FloatReportArgs& args) {
  const ConfigTable::Choice choice = args.configs.find(node);
  if (!choice.config) return choice.reason;
  if (args.filter && !args.filter(node)) return "excluded by the filter function";
  const std::unordered_map<const Node*, std::string>::const_iterator refusal = args.state.refusals.find(&node);
  if (refusal != args.state.refusals.end()) return refusal->second;
  if (is_one_of(node, args.sharing_ops)) {
    const std::vector<Value*> inputs = node.inputs();
    if (!inputs.empty()) return fmt::format("it shares the scale of its input, and %{} is not quantized", inputs.front()->name());
  }
  return fmt::format("no rule of {} matches {}", args.quantizer, node.target());
}

}  // namespace

void report_float_nodes(const Graph& graph, const Annotations& annotations, const FloatReportArgs& args, Report& report) {
  for (const Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    const bool is_taken = annotation && (annotation->annotated || !annotation->input_qspec_map.empty());
    if (is_taken || !is_one_of(*node, args.compute_ops)) continue;
    report.add({"annotate", node->name(), node->target(), innermost_module(*node), reason_for(*node, args)});
  }
  for (const std::string& row : args.configs.unused_rows(graph)) report.note(fmt::format("{} applies to no node", row));
}

}  // namespace octet
