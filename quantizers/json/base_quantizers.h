// The quantizers that names and JSON files are based on, and the settings of each.
#pragma once

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

}  // namespace octet
