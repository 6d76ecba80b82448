#include "tools/cli/quantize/report_file.h"

#include <filesystem>

#include <fmt/format.h>

#include "core/base/output_file.h"
#include "tools/cli/quantize/page_data.h"
#include "tools/cli/quantize/quality.h"
#include "tools/cli/quantize/report.h"
#include "tools/page/page.h"
#include "tools/page/shorten.h"

namespace octet {
namespace {

constexpr const char* kModelExplorer = ".model-explorer.json";

std::string subtitle_of(const QuantizeFlow& flow) {
  const std::filesystem::path quantizer(flow.quantizer);
  return fmt::format("{}, {}{}", quantizer.filename().string(), flow.mode,
                     flow.is_compat() ? ", --compat torchao" : "");
}

std::string lines_of(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// The nodes have long lists: a line each.
std::string lines_with_nodes(const nlohmann::ordered_json& all,
                             const nlohmann::ordered_json& nodes) {
  std::string text = lines_of(all);
  text.erase(text.rfind("\n}"));
  const nlohmann::ordered_json shortened = shorten({{"nodes", nodes}});
  text += ",\n \"nodes\": [";
  const char* separator = "\n  ";
  for (const nlohmann::ordered_json& node : shortened.at("nodes")) {
    text += separator + node.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace

Option report_option(std::string& path) {
  return Option{"report", &path,
                "Write what was quantized how, what stayed float and why: F.html for people (one "
                "page that needs no other file), F.json, or F.model-explorer.json to be laid over "
                "the graph in Model Explorer"}
      .ends_in({".json", ".html"})
      .for_command();
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
