// Collects the data of the report page (tools/page/page.h) for `octet quantize` and `octet qat`:
// what observers saw before convert, and the nodes, weights and ranges of the quantized program.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "annotate/observed/observed_graph.h"
#include "core/base/tensor.h"
#include "core/graph/graph.h"

namespace octet {

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

}  // namespace octet
