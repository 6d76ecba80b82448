// Quantizers declared in JSON: on the base of a built-in one, composed of several, or as a table of
// patterns of their own.
//
//   {"base": "xnnpack", "global": {"is_per_channel": true, "act_qmin": -128}, "op_type":
//       {"aten.linear.default": {"is_per_channel": false}},
//    "module_type": {"torch.nn.modules.linear.Linear": {}}, "module_name": {"block.lin2": {},
//        "head": null}}
//   {"compose": ["embedding", {"base": "x86", "global": {}}, "npu.json"]}
//   {"name": "npu", "specs": {...}, "patterns": [...], "module_name": {"head": null}}
//
// Rows, weakest first: global, op_type, module_type, module_name_regex (ECMAScript, of whole
// paths), module_name, call_index ({"block": {"aten.linear.default": {"1": null}}}: the second such
// call in block itself). They stand at the top of each form; of a composition, for all its parts.
//
// A configuration takes the options of options.h; null leaves the nodes float. On a base, an absent
// "global" quantizes only what the rows name; of a table, everything. For specs and patterns see
// specs.h and patterns.h.
#pragma once

#include <filesystem>
#include <string>

#include "quantizers/json/base_quantizers.h"

namespace octet {

// All throw Error("quantizer", "file.json: /global/act_qmin", "got \"x\", want an int") for each
// fault, with the JSON path of the place.

// A built-in name or the path of a JSON file. Paths within a file start in its folder.
QuantizerParts read_quantizers(const std::string& name_or_path, const QuantizerOptions& options);
QuantizerParts parse_quantizers(const std::string& json, const std::string& file,
                                const QuantizerOptions& options);

// Sets the rows of a file without "base" on all parts and adds its opaque parts.
void apply_json_config(QuantizerParts& parts, const std::filesystem::path& path,
                       const QuantizerOptions& options);
// From text; messages show `name` as the file.
void apply_json_config(QuantizerParts& parts, const std::string& text, const std::string& name,
                       const QuantizerOptions& options);

// Composes the parts and keeps them out of what is opaque. At least one.
std::unique_ptr<Quantizer> to_one(QuantizerParts parts);

}  // namespace octet
