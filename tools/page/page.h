// Writes the report page of `octet quantize`, `qat`, `compare` and `tune`: one HTML file that needs
// no other file and no network. Also converts its figures for Model Explorer. page.schema.json
// describes the data, README.md the page.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace octet {

// data: as page.schema.json describes. Texts in it cannot become markup. Floats are rounded to six
// digits; histograms, per-channel lists and stack traces are shortened if the page would exceed 14
// MB.
std::string page_html(const nlohmann::ordered_json& data);

// Model Explorer's custom node data for a .pt2: {"graph": {"results": {NODE: {"value", "bgColor",
// "textColor"}}, "thresholds": [...]}}. The value is the SQNR in dB, of accumulated errors if they
// were measured, else of isolated errors, else of lowering; without any of them it is the status
// ("quantized", "float").
nlohmann::ordered_json model_explorer_data(const nlohmann::ordered_json& data);

// The files of the page in this folder, from a source that embed.cmake writes: "page.html",
// "page.css", "page.js" (all scripts of the page, one after the other), "d3.min.js", "plot.min.js",
// "dagre.min.js", "licenses". Trips OCTET_ASSERT for other names.
std::string_view page_source(std::string_view name);

// The verdict at the top of the page: whether the quantized program is good, and what to do if not:
// {"level", "text", "ops": [{"name", "text"}...], "next"} as page.schema.json describes. data: of
// the page. Without errors of ops, the ops are chosen by what is known of their ranges and weights.
nlohmann::ordered_json verdict_of(const nlohmann::ordered_json& data);

// Rounds floats to six digits. Shortens lists only if all of them together are large: merges
// neighboring bins by adding, and neighboring channels to the widest range, the largest scale and
// the lowest SQNR ("weight.channels" is the original number). Stack traces keep their end.
nlohmann::ordered_json shorten(const nlohmann::ordered_json& data);

}  // namespace octet
