// The report of `octet quantize` and `octet qat`: what it says is gathered before and after
// convert, and written as what the file's name asks for.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/graph/graph.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/seen_tensors.h"

namespace octet {

// --report FILE: .html, .json or .model-explorer.json.
Option report_option(std::string& path);

// data: as tools/page/page.schema.json has it. F.html is the page, F.model-explorer.json Model
// Explorer's node data, any other name the data as it is.
void write_page_file(const std::string& path, const nlohmann::ordered_json& data);

class ReportFile {
 public:
  // kind: "quantize" or "qat". flow must outlive it.
  ReportFile(std::string kind, const QuantizeFlow& flow) : kind_(std::move(kind)), flow_(flow) {}

  void before_convert(const ObservedGraph& observed, std::string annotations);
  void after_convert(const Graph& quantized, const Report& report);
  // quality: as quality_json() gave it; report: complete. path: as of write_page_file.
  void write(const std::string& path, const Report& report,
             const nlohmann::ordered_json& quality) const;
  // The text of F.json, and the data of the page.
  std::string json(const Report& report, const nlohmann::ordered_json& quality) const;
  nlohmann::ordered_json page(const Report& report, const nlohmann::ordered_json& quality) const;

 private:
  nlohmann::ordered_json contents(const Report& report,
                                  const nlohmann::ordered_json& quality) const;

  std::string kind_;
  const QuantizeFlow& flow_;
  std::string annotations_;
  SeenTensors seen_;
  nlohmann::ordered_json nodes_;
};

}  // namespace octet
