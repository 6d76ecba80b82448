// The report page of `octet quantize`, `qat`, `compare` and `tune`: one HTML file that needs no
// other file and no network, and the same figures for Model Explorer. page.schema.json says what
// the data may hold, README.md what the page shows.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace octet {

// data: as page.schema.json has it. Names and texts in it stay text on the page, whatever they
// hold. Floats are rounded to six digits; histograms, per-channel lists and stack traces get
// shorter where the page would become larger than 14 MB.
std::string page_html(const nlohmann::ordered_json& data);

// What Model Explorer takes as custom node data for a .pt2: {"graph": {"results": {NODE: {"value",
// "bgColor", "textColor"}}, "thresholds": [...]}}. The value is the SQNR in dB, of accumulated
// errors where they were measured, else of isolated ones, else of lowering; without any of them it
// is the status ("quantized", "float").
nlohmann::ordered_json model_explorer_data(const nlohmann::ordered_json& data);

}  // namespace octet
