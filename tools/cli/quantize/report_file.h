// Writes the report of `octet quantize` and `octet qat`, which says what was done to each op.
// Collects data before and after convert; the file's suffix decides the format.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/base/tensor.h"
#include "core/graph/graph.h"
#include "tools/cli/quantize/flow.h"

namespace octet {

// Collects the data of the report page (tools/page/page.h) for `octet quantize` and `octet qat`:
// what observers saw before convert, and the nodes, weights and ranges of the quantized program.

struct SeenTensors {
  // By the name of the observed value, for values that had data: {"observer", "observed": [least,
  // largest], "histogram": {"min", "max", "counts"}}, without what the observer does not keep.
  std::map<std::string, nlohmann::ordered_json> activations;
  struct Weight {
    std::string name;  // its key among the constants
    Tensor tensor;     // shares the program's bytes
  };
  // By the name of the node: its first observed constant with at least two dimensions.
  std::map<std::string, Weight> weights;
};

// Reads the program, without the bodies of control flow.
SeenTensors see_tensors(const ObservedGraph& observed);

// The result of a dequantize op that reads only constants; undefined for others.
Tensor dequantized_constant(const Graph& graph, const Node& dequantize);

// "weight" of a page's node: {"name", "dtype", "shape", "axis", "min", "max", "scale", "sqnr_db"}.
// Lists have one entry for each index of the scales' axis, else of axis 0; "scale" has one entry if
// it is per tensor, and none for groups within a channel. original: the float weight; if it is
// undefined, the ranges are those of the dequantized weight, and there is no "sqnr_db". Null if the
// node does not dequantize constants.
nlohmann::ordered_json weight_json(const Graph& graph, const Node& dequantize,
                                   const std::string& name, const Tensor& original);

// The nodes of the float program, program inputs and outputs included. Quantize and dequantize ops
// are not nodes; their data are with the tensors that they quantize. report: quantize_report() of
// the same program, which says which ops are quantized and why the others are float. seen:
// see_tensors() before convert.
nlohmann::ordered_json page_nodes(const Graph& quantized, const SeenTensors& seen,
                                  const nlohmann::ordered_json& report);

// All data of the page. kind: "quantize" or "qat". rows: of the summary, before the counts; nodes:
// of page_nodes().
nlohmann::ordered_json page_data(const std::string& kind, const std::string& subtitle,
                                 const std::vector<std::pair<std::string, std::string>>& rows,
                                 const nlohmann::ordered_json& report,
                                 nlohmann::ordered_json nodes);

// {"model", "quantizer",
//  "summary":       {"quantized_ops", "float_ops", "groups", "notes"}: how many,
//  "quality":       as quality.h has it, and "validation" {"float", "quantized"}, from Python only,
//  "quantized_ops": [{"node", "target", "module", "rule", "inputs", "output"}...]: ops with a
//                   quantized tensor, and the inner ones of a quantized pattern,
//  "float_ops":     [{"node", "target", "module", "stage", "reason"}...], "notes": [...],
//  "details":       [...], notes on single layers, "groups": [...]}
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
