#include "tools/cli/quantize/report_file.h"

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include <fmt/format.h>

#include "core/base/json_text.h"
#include "core/base/output_file.h"
#include "tools/cli/quantize/quality.h"
#include "tools/page/page.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

bool is_in_group(const Json& tensor) { return !tensor.is_null() && !tensor.at("group").is_null(); }

// Whether the node has a spec in effect, or is part of a pattern whose other ops have the specs.
bool is_quantized(const Json& node) {
  const Json& inputs = node.at("inputs");
  if (std::ranges::any_of(inputs, is_in_group) || is_in_group(node.at("output"))) return true;
  return inputs.empty() && node.at("output").is_null() &&
         !node.at("rule").get<std::string>().empty();
}

Json quantized_ops(const Json& nodes, const Report& report) {
  // ops that are float despite an annotation: convert left them, or they are in an opaque part
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

constexpr const char* kModelExplorer = ".model-explorer.json";

std::string subtitle_of(const QuantizeFlow& flow) {
  const std::filesystem::path quantizer(flow.quantizer);
  return fmt::format("{}, {}{}", quantizer.filename().string(), flow.mode,
                     flow.is_compat() ? ", --compat torchao" : "");
}

std::string lines_of(const nlohmann::ordered_json& json) {
  return dump_json(json, 1, false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Prints each node on one line, because nodes have long lists.
std::string lines_with_nodes(const nlohmann::ordered_json& all,
                             const nlohmann::ordered_json& nodes) {
  std::string text = lines_of(all);
  text.erase(text.rfind("\n}"));
  const nlohmann::ordered_json shortened = shorten({{"nodes", nodes}});
  text += ",\n \"nodes\": [";
  const char* separator = "\n  ";
  for (const nlohmann::ordered_json& node : shortened.at("nodes")) {
    text +=
        separator + dump_json(node, -1, false, nlohmann::ordered_json::error_handler_t::replace);
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace

Json quantize_report(const std::string& model, const std::string& quantizer,
                     const std::string& annotations, const Report& report, const Json& quality) {
  const Json dump = parse_json<Json>(annotations);
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

Option report_option(std::string& path) {
  return Option{"report", &path,
                "Write a report of what was quantized, what stayed float and why: F.html (a page "
                "that works offline), F.json, or F.model-explorer.json to overlay on the graph in "
                "Model Explorer"}
      .ends_in({".json", ".html"})
      .output();
}

void write_page_file(const std::string& path, const nlohmann::ordered_json& data) {
  const std::string text = path.ends_with(".html")          ? page_html(data)
                           : path.ends_with(kModelExplorer) ? lines_of(model_explorer_data(data))
                                                            : lines_of(data);
  write_file(path, text, "output");
}

void ReportFile::before_convert(const ObservedGraph& observed, std::string annotations) {
  annotations_ = std::move(annotations);
  seen_ = see_tensors(observed);
}

void ReportFile::after_convert(const Graph& quantized, const Report& report) {
  nodes_ = page_nodes(quantized, seen_, contents(report, nullptr));
}

nlohmann::ordered_json ReportFile::contents(const Report& report,
                                            const nlohmann::ordered_json& quality) const {
  return quantize_report(flow_.model, flow_.quantizer, annotations_, report, quality);
}

std::string ReportFile::json(const Report& report, const nlohmann::ordered_json& quality) const {
  return lines_with_nodes(contents(report, quality), nodes_);
}

nlohmann::ordered_json ReportFile::page(const Report& report,
                                        const nlohmann::ordered_json& quality) const {
  return page_data(kind_, subtitle_of(flow_), quality_rows(quality), contents(report, quality),
                   nodes_);
}

void ReportFile::write(const std::string& path, const Report& report,
                       const nlohmann::ordered_json& quality) const {
  if (path.ends_with(".html") || path.ends_with(kModelExplorer))
    write_page_file(path, page(report, quality));
  else
    write_file(path, json(report, quality), "output");
}

}  // namespace octet
