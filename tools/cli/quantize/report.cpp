#include "tools/cli/quantize/report.h"

#include <algorithm>
#include <unordered_set>

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

bool is_in_group(const Json& tensor) { return !tensor.is_null() && !tensor.at("group").is_null(); }

// Annotated with a spec that was put into effect; or a part of a pattern whose specs are on its
// other ops.
bool is_quantized(const Json& node) {
  const Json& inputs = node.at("inputs");
  if (std::any_of(inputs.begin(), inputs.end(), is_in_group) || is_in_group(node.at("output")))
    return true;
  return inputs.empty() && node.at("output").is_null() &&
         !node.at("rule").get<std::string>().empty();
}

Json quantized_ops(const Json& nodes, const Report& report) {
  // in spite of its annotation: at convert, or within an opaque part with specs at its border
  std::unordered_set<std::string> left_float;
  for (const ReportEntry& entry : report.entries()) left_float.insert(entry.node);
  Json ops = Json::array();
  for (const Json& node : nodes)
    if (is_quantized(node) && !left_float.contains(node.at("name").get<std::string>()))
      ops.push_back({{"node", node.at("name")},
                     {"target", node.at("target")},
                     {"module", node.at("module")},
                     {"rule", node.at("rule")},
                     {"inputs", node.at("inputs")},
                     {"output", node.at("output")}});
  return ops;
}

Json float_ops(const Report& report) {
  Json ops = Json::array();
  for (const ReportEntry& entry : report.entries())
    ops.push_back({{"node", entry.node},
                   {"target", entry.target},
                   {"module", entry.module},
                   {"stage", entry.stage},
                   {"reason", entry.reason}});
  return ops;
}

}  // namespace

Json quantize_report(const std::string& model, const std::string& quantizer,
                     const std::string& annotations, const Report& report, const Json& quality) {
  const Json dump = Json::parse(annotations);
  const Json quantized = quantized_ops(dump.at("nodes"), report);
  return {{"model", model},
          {"quantizer", quantizer},
          {"summary",
           {{"quantized_ops", quantized.size()},
            {"float_ops", report.entries().size()},
            {"groups", dump.at("groups").size()},
            {"notes", report.notes().size()}}},
          {"quality", quality},
          {"quantized_ops", quantized},
          {"float_ops", float_ops(report)},
          {"notes", report.notes()},
          {"details", report.details()},
          {"groups", dump.at("groups")}};
}

}  // namespace octet
