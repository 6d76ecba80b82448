// Writes the report of `octet quantize` and `octet qat`, which says what was done to each op.
// Collects data before and after convert; the file's suffix decides the format.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/graph/graph.h"
#include "tools/cli/quantize/flow.h"
#include "tools/cli/quantize/page_data.h"

namespace octet {

// {"model", "quantizer",
//  "summary":       {"quantized_ops", "float_ops", "groups", "notes"}: how many, "quality":
//  as quality.h has it, "quantized_ops": [{"node", "target", "module", "rule", "inputs",
//  "output"}...]: ops with a quantized tensor, and the inner ones of a quantized pattern,
//  "float_ops":     [{"node", "target", "module", "stage", "reason"}...], "notes":         [...],
//  "details":       [...], notes on single layers, "groups":        [...]}
// Inputs, output and groups are those of `annotations`, the text of annotations_to_json for the
// calibrated graph. `report` must be complete.
nlohmann::ordered_json quantize_report(const std::string& model, const std::string& quantizer,
                                       const std::string& annotations, const Report& report,
                                       const nlohmann::ordered_json& quality);

// --report FILE: .html, .json or .model-explorer.json.
Option report_option(std::string& path);

// data: as page.schema.json describes. Writes the page to F.html, Model Explorer's node data to
// F.model-explorer.json, and the data itself to any other file.
void write_page_file(const std::string& path, const nlohmann::ordered_json& data);

class ReportFile {
 public:
  // kind: "quantize" or "qat". flow must outlive it.
  ReportFile(std::string kind, const QuantizeFlow& flow) : kind_(std::move(kind)), flow_(flow) {}

  void before_convert(const ObservedGraph& observed, std::string annotations);
  void after_convert(const Graph& quantized, const Report& report);
  // quality: of quality_json(); report: complete. path: as in write_page_file.
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
