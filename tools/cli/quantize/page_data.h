// The data of the report's page (tools/page/page.h) for `octet quantize` and `octet qat`: what
// observers saw before convert, and the nodes, weights and ranges of the quantized program.
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
  // By the name of the observed value, of those that data flowed through: {"observer", "observed":
  // [least, largest], "histogram": {"min", "max", "counts"}}; what an observer does not keep is
  // left out.
  std::map<std::string, nlohmann::ordered_json> activations;
  struct Weight {
    std::string name;  // its key among the constants
    Tensor tensor;     // shares the program's bytes
  };
  // By the name of the node: its first observed constant of two and more dimensions.
  std::map<std::string, Weight> weights;
};

// Reads the program itself, not the bodies in it.
SeenTensors see_tensors(const ObservedGraph& observed);

// What a dequantize op of the program makes of its constants. Undefined when it reads others.
Tensor dequantized_constant(const Graph& graph, const Node& dequantize);

// "weight" of a page's node: {"name", "dtype", "shape", "axis", "min", "max", "scale", "sqnr_db"}.
// One entry for each index of the axis, that of the scales, else 0; "scale" has one entry for the
// whole tensor and none for groups within a channel. original: the float weight, or undefined; then
// the ranges are those of the dequantized one, and there is no "sqnr_db". Null when the node does
// not dequantize constants.
nlohmann::ordered_json weight_json(const Graph& graph, const Node& dequantize,
                                   const std::string& name, const Tensor& original);

// The nodes of a q/dq program as the float program has them: quantize and dequantize ops are not
// among them, what they say stands with the tensors that they quantize. Inputs and outputs of the
// program are nodes too. report: of quantize_report() on the same program: which ops are quantized,
// which stayed float and why. seen: what see_tensors() gave before convert.
nlohmann::ordered_json page_nodes(const Graph& quantized, const SeenTensors& seen,
                                  const nlohmann::ordered_json& report);

// All of the page's data. kind: "quantize" or "qat". rows: of the summary, in front of the counts;
// nodes: as page_nodes() gave them.
nlohmann::ordered_json page_data(const std::string& kind, const std::string& subtitle,
                                 const std::vector<std::pair<std::string, std::string>>& rows,
                                 const nlohmann::ordered_json& report,
                                 nlohmann::ordered_json nodes);

}  // namespace octet
