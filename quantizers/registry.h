// Names -> quantizers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "quantizers/common/quantizer_options.h"

namespace octet {

// The built-in names of this build: embedding, qnnpack, x86, xnnpack; then those that were
// registered.
std::vector<std::string> quantizer_names();

// Never null. `options` is what the caller asks for beside the name; a quantizer that cannot do
// that throws Error.
using QuantizerMaker = std::function<std::unique_ptr<Quantizer>(const QuantizerOptions& options)>;
// Makes a quantizer of your own known by name: for --quantizer, and in JSON as a "base" and in
// "compose". The settings of JSON (op_type, module_name, ...) count for it: a ConfigurableQuantizer
// (common/configurable_quantizer.h), which a DeclaredQuantizer is, asks them; any other subclass of
// Quantizer is kept out of what they leave float (with_settings). Throws
// Error("quantizer", ...) when the name is taken or cannot be one. Not while other threads make
// quantizers.
void register_quantizer(const std::string& name, QuantizerMaker maker);

// A built-in name, the path of a JSON file (see quantizers/json/quantizer.h), or several of them
// with commas between: "embedding,xnnpack" composes them in that order. Throws Error("quantizer",
// ...) when one is neither, listing the names, for each fault in a file, for an option that no
// quantizer of the list has, and for is_dynamic or is_weight_only unless all have it.
std::unique_ptr<Quantizer> make_quantizer(const std::string& names,
                                          const QuantizerOptions& options = {});

// From the text of a JSON file; messages show `file`, and its folder is where paths
// in the text start.
std::unique_ptr<Quantizer> parse_quantizer(const std::string& json, const std::string& file,
                                           const QuantizerOptions& options = {});

}  // namespace octet
