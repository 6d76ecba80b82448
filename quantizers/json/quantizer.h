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
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"
#include "quantizers/common/quantizer_options.h"
#include "quantizers/compose/declared_quantizer.h"
#include "quantizers/json/place.h"

namespace octet {

// The quantizers that names and JSON files are based on, and the settings of each.

// A quantizer whose rows can still be changed.
struct QuantizerPart {
  std::unique_ptr<Quantizer> quantizer;
  // Sets the rows in the object's "global", "op_type", "module_type", "module_name_regex",
  // "module_name" and "call_index", if present, replacing existing rows. Throws Error("quantizer",
  // "file.json: /module_name/head/...", ...) for each mistake.
  std::function<void(const Place& root)> set_rows;
  std::vector<std::string> overrides;        // members of QuantizerOptions that it supports
  std::vector<std::string> unaffected = {};  // members that do not apply to its ops
  // what it, and quantizers composed with it, must leave out
  std::vector<OpaquePart> opaque = {};
};
using QuantizerParts = std::vector<QuantizerPart>;

// The built-in names in alphabetical order, then the registered ones.
std::vector<std::string> base_names();
// See register_quantizer in registry.h.
void register_base(const std::string& name,
                   std::function<std::unique_ptr<Quantizer>(const QuantizerOptions&)> maker);
// Makes `base`, one of base_names(), without configurations. name: what the quantizer calls itself.
QuantizerPart make_base(const std::string& base, const std::string& name,
                        const QuantizerOptions& options);
// Makes the quantizer of a bare name, which quantizes everything.
QuantizerPart make_built_in(const std::string& base, const QuantizerOptions& options);
QuantizerPart make_declared(DeclaredBackend backend, const QuantizerOptions& options);

// Throws Error("quantizer", ...) when no part supports a set option; for is_dynamic, is_weight_only
// and reduce_range unless all parts do (reduce_range: all with activations); and for reduce_range
// with is_weight_only.
void check_overrides(const QuantizerParts& parts, const QuantizerOptions& options);

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
