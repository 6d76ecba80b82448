// Annotates graphs given as text and prints the annotations.
#include "quantizers/annotate_text.h"

#include "annotate/annotation/annotation.h"
#include "core/text/text.h"
#include "quantizers/registry.h"
#include "support/error_message.h"

namespace octet::test {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

Annotated annotate_plain(const std::string& text, Quantizer& quantizer, const ModuleStacks& stacks,
                         const Sources& sources) {
  Graph graph = parse_graph(text);
  for (const auto& [name, stack] : stacks)
    graph.find_node(name)->metadata["nn_module_stack"] = stack;
  for (const auto& [name, source] : sources)
    graph.find_node(name)->metadata["source_fn_stack"] = source;
  quantizer.transform_for_annotation(graph);
  Annotations annotations;
  Annotated result;
  quantizer.annotate(graph, annotations, result.report);
  result.text = to_text(graph, annotations);
  return result;
}

Annotated annotate_text(const std::string& text, Quantizer& quantizer, const ModuleStacks& stacks,
                        const Sources& sources) {
  Annotated result = annotate_plain(text, quantizer, stacks, sources);
  replace_all(result.text, "int8 -128..127 per_tensor_affine histogram", "ACT");
  replace_all(result.text, "int8 -127..127 per_channel_symmetric axis 0 per_channel_min_max",
              "WEIGHT");
  replace_all(result.text, "int8 -127..127 per_channel_symmetric axis 1 per_channel_min_max",
              "WEIGHT1");
  replace_all(result.text, "int8 -127..127 per_tensor_symmetric min_max", "WEIGHT_T");
  replace_all(result.text, "uint8 0..255 per_tensor_affine histogram", "ACT8U");
  replace_all(result.text, "int8 -128..127 per_channel_symmetric axis 0 per_channel_min_max",
              "WEIGHT8");
  return result;
}

Annotated annotate_text(const std::string& text, Compat compat, const ModuleStacks& stacks) {
  XNNPACKQuantizer quantizer(compat);
  SymmetricOptions options;
  options.is_per_channel = true;
  quantizer.set_global(get_symmetric_quantization_config(options));
  return annotate_text(text, quantizer, stacks);
}

std::string fused_as(const Annotated& annotated, const std::vector<std::string>& nodes) {
  std::string row;
  for (const std::string& node : nodes) {
    const std::string line_start = "%" + node + " [";
    size_t at = annotated.text.starts_with(line_start) ? 0 : annotated.text.find("\n" + line_start);
    if (at == std::string::npos) return "";
    at = annotated.text.find('[', at) + 1;
    const std::string name = annotated.text.substr(at, annotated.text.find(']', at) - at);
    if (!row.empty() && name != row) return "";
    row = name;
  }
  return row;
}

std::string declared_fault(const std::string& json) {
  return error_message([&] { parse_quantizer(json, "npu.json"); });
}

std::string reason_for(const Report& report, const std::string& node) {
  for (const ReportEntry& entry : report.entries())
    if (entry.node == node) return entry.reason;
  return {};
}

}  // namespace octet::test
