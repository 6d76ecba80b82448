// The report of `octet quantize` for people: one HTML page that needs no other file.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace octet {

// "report": what quantize_report gave. Counts, quantized ops with specs and scales, ops that stayed
// float with reasons, notes, sharing groups. Names from the model are escaped.
std::string report_to_html(const nlohmann::ordered_json& report);

}  // namespace octet
