// Reads quantizers from JSON: a built-in one with settings, a composition of several, or a table of
// patterns.
//
//   {"base": "xnnpack", "global": {"is_per_channel": true, "act_qmin": -128},
//    "op_type": {"aten.linear.default": {"is_per_channel": false}},
//    "module_type": {"torch.nn.modules.linear.Linear": {}},
//    "module_name": {"block.lin2": {}, "head": null}}
//   {"compose": ["embedding", {"base": "x86", "global": {}}, "npu.json"]}
//   {"name": "npu", "specs": {...}, "patterns": [...], "module_name": {"head": null}}
//
// Rows, in increasing precedence: global, op_type, module_type, module_name_regex (ECMAScript,
// matches whole paths), module_name, call_index ({"block": {"aten.linear.default": {"1": null}}} is
// the second such call directly in block). They are at the top of each form; in a composition they
// apply to all parts.
//
// A configuration has the options of options.h; null leaves ops float. With a base and no "global",
// only ops that rows name are quantized; with a table, all ops. specs.h and patterns.h describe
// specs and patterns.
#pragma once

#include <filesystem>
#include <string>

#include "quantizers/json/base_quantizers.h"

namespace octet {

// All throw Error("quantizer", "file.json: /global/act_qmin", "got \"x\", want an int") for each
// mistake, with the JSON path.

// Reads a built-in name or the path of a JSON file. Paths in a file are relative to its folder.
QuantizerParts read_quantizers(const std::string& name_or_path, const QuantizerOptions& options);
QuantizerParts parse_quantizers(const std::string& json, const std::string& file,
                                const QuantizerOptions& options);

// Sets the rows of a file without "base" on all parts, and adds its opaque parts.
void apply_json_config(QuantizerParts& parts, const std::filesystem::path& path,
                       const QuantizerOptions& options);
// As above, from text; messages call the file `name`.
void apply_json_config(QuantizerParts& parts, const std::string& text, const std::string& name,
                       const QuantizerOptions& options);

// Composes the parts and keeps them out of opaque parts. At least one part.
std::unique_ptr<Quantizer> to_one(QuantizerParts parts);

}  // namespace octet
