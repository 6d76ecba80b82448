// The quantizers that names and JSON files start from, and what can be set on each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"
#include "quantizers/common/quantizer_options.h"
#include "quantizers/json/declared_quantizer.h"
#include "quantizers/json/place.h"

namespace octet {

// A quantizer whose rows can still be set.
struct QuantizerPart {
  std::unique_ptr<Quantizer> quantizer;
  // Sets "global", "op_type", "module_type", "module_name_regex", "module_name" and "call_index" of
  // the object, as far as it has them; a row that is set already is replaced. Throws
  // Error("quantizer", "file.json: /module_name/head/...", ...) for each fault.
  std::function<void(const Place& root)> set_rows;
  std::vector<std::string> overrides;        // the members of QuantizerOptions that it heeds
  std::vector<std::string> unaffected = {};  // the members that concern nothing that it annotates
  // what it and those that it is composed with are to keep out of
  std::vector<OpaquePart> opaque = {};
};
using QuantizerParts = std::vector<QuantizerPart>;

// The built-in ones in alphabetical order, then those that were registered.
std::vector<std::string> base_names();
// See register_quantizer in registry.h.
void register_base(const std::string& name,
                   std::function<std::unique_ptr<Quantizer>(const QuantizerOptions&)> maker);
// Nothing configured. `base` is one of base_names(); `name` is what the quantizer calls itself.
QuantizerPart make_base(const std::string& base, const std::string& name,
                        const QuantizerOptions& options);
// As the bare name says: everything is quantized.
QuantizerPart make_built_in(const std::string& base, const QuantizerOptions& options);
QuantizerPart make_declared(DeclaredBackend backend, const QuantizerOptions& options);

// Throws Error("quantizer", ...) when `options` sets what no part heeds, for is_dynamic,
// is_weight_only and reduce_range unless all do (reduce_range: all that have activations), and for
// reduce_range beside is_weight_only.
void check_overrides(const QuantizerParts& parts, const QuantizerOptions& options);

}  // namespace octet
