// Makes quantizers by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "quantizers/common/quantizer_options.h"

namespace octet {

// The built-in names of this build (embedding, kv_cache, qnnpack, x86, xnnpack), then the
// registered ones.
std::vector<std::string> quantizer_names();

// Never returns null. options: what the caller requests besides the name. A quantizer that does not
// support an option throws Error.
using QuantizerMaker = std::function<std::unique_ptr<Quantizer>(const QuantizerOptions& options)>;
// Registers a quantizer under a name, for --quantizer and, in JSON, as a "base" and in "compose".
// JSON settings (op_type, module_name, ...) apply to it: a ConfigurableQuantizer
// (common/configurable_quantizer.h), such as DeclaredQuantizer, queries them; any other subclass of
// Quantizer is kept out of the ops that they leave float (with_settings). Throws Error("quantizer",
// ...) when the name is taken or invalid; make_quantizer throws when the quantizer's name() is
// another one. Do not call it while other threads make quantizers.
void register_quantizer(const std::string& name, QuantizerMaker maker);

// names: a built-in name, the path of a JSON file (quantizers/json/quantizer.h), or several of them
// separated by commas; "embedding,xnnpack" composes them in that order. Throws Error("quantizer",
// ...) for an unknown name, listing the names, for each mistake in a file, for an option that no
// quantizer of the list supports, and for is_dynamic or is_weight_only unless all support it.
std::unique_ptr<Quantizer> make_quantizer(const std::string& names,
                                          const QuantizerOptions& options = {});

// Reads the text of a JSON file. Messages call it `file`, and paths in the text are relative to its
// folder.
std::unique_ptr<Quantizer> parse_quantizer(const std::string& json, const std::string& file,
                                           const QuantizerOptions& options = {});

}  // namespace octet
