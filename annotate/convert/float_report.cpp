#include "annotate/convert/float_report.h"

#include <string>
#include <unordered_set>

#include "annotate/graph/float_ops.h"

namespace octet {

int report_float_ops(const Graph& graph, const Annotations& annotations, Report& report) {
  std::unordered_set<std::string> known;
  for (const ReportEntry& entry : report.entries()) known.insert(entry.node);
  int added = 0;
  for (const Node* op : find_float_ops(graph)) {
    const QuantizationAnnotation* annotation = annotations.find(op);
    if (known.contains(op->name()) ||
        (annotation != nullptr && !annotation->input_qspec_map.empty()))
      continue;
    ++added;
    const std::vector<ModuleFrame> stack = module_stack(*op);
    report.add({"convert", op->name(), op->target(), stack.empty() ? "" : stack.back().path,
                "no rule of the quantizer gave it a spec"});
  }
  return added;
}

}  // namespace octet
