// The data of the report's page (tools/page/page.h) for what `octet quantize` and `octet qat` made.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/graph/graph.h"
#include "tools/cli/quantize/seen_tensors.h"

namespace octet {

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
