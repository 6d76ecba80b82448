// Reads configurations from options in JSON, with one reader per kind of quantizer.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "quantizers/common/quantizer_options.h"
#include "quantizers/json/place.h"

namespace octet {

// Reads an object of options; null returns nullopt, which leaves ops float. Throws
// Error("quantizer", "file.json: /global/act_qmin", "got \"x\", want an int") for a mistake.
// `overrides` takes precedence.
using ConfigReader = std::function<std::optional<QuantizationConfig>(
    const Place& place, const QuantizerOptions& overrides)>;

// Reads the members of SymmetricOptions. is_per_token and search_weight_ranges default to true,
// except in compat.
std::optional<QuantizationConfig> symmetric_config_at(const Place& place,
                                                      const QuantizerOptions& overrides);
// Reads the members of X86InductorOptions, or {"preset": "linear_dynamic_fp16"}.
std::optional<QuantizationConfig> x86_config_at(const Place& place,
                                                const QuantizerOptions& overrides);
// Reads {"weight_bits": 8, 4, 3 or 2}.
std::optional<QuantizationConfig> embedding_config_at(const Place& place,
                                                      const QuantizerOptions& overrides);
// Reads {}. Ignores the options of other quantizers, which the same settings may configure.
std::optional<QuantizationConfig> kv_cache_config_at(const Place& place,
                                                     const QuantizerOptions& overrides);
// For quantizers with a list of configurations: {} is the first, {"dtype_config": "int16"} the one
// of that name.
std::optional<QuantizationConfig> dtype_config_at(const Place& place,
                                                  std::span<const QuantizationConfig> configs);

// The keys of a built-in quantizer's options; "": of all.
std::vector<std::string> option_keys(const std::string& base);

// The configurations of the bare names: of the options {"is_per_channel": true}, {}, {} and {}.
QuantizationConfig default_symmetric_config(const QuantizerOptions& overrides);
QuantizationConfig default_x86_config(const QuantizerOptions& overrides);
QuantizationConfig default_embedding_config(const QuantizerOptions& overrides);
QuantizationConfig default_kv_cache_config(const QuantizerOptions& overrides);

}  // namespace octet
