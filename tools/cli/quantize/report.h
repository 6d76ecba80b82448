// What `octet quantize` did to each op, as JSON; tools/cli/quantize/report_file.h adds the nodes of
// the page.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "core/base/report.h"

namespace octet {

// {"model", "quantizer",
//  "summary":       {"quantized_ops", "float_ops", "groups", "notes"}: how many, "quality":
//  as quality.h has it, "quantized_ops": [{"node", "target", "module", "rule", "inputs",
//  "output"}...]: ops with a quantized tensor, and the inner ones of a quantized pattern,
//  "float_ops":     [{"node", "target", "module", "stage", "reason"}...], "notes":         [...],
//  "details":       [...], notes on single layers, "groups":        [...]}
// Inputs, output and groups are those of `annotations`, the text that annotations_to_json gave of
// the calibrated graph; `report` is complete.
nlohmann::ordered_json quantize_report(const std::string& model, const std::string& quantizer,
                                       const std::string& annotations, const Report& report,
                                       const nlohmann::ordered_json& quality);

}  // namespace octet
