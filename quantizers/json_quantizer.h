// Quantizers declared in JSON on the base of a built-in one:
//
//   {"base": "xnnpack", "global": {"is_per_channel": true, "act_qmin": -128}, "op_type": {"aten.linear.default": {"is_per_channel": false}},
//    "module_type": {"torch.nn.modules.linear.Linear": {}}, "module_name": {"block.lin2": {}, "head": null}}
//
// A configuration takes the options of SymmetricOptions; null leaves the nodes float. An absent "global" quantizes only what the rows name.
// Of dynamic configurations, is_per_token is true unless the peer's choices are asked for.
#pragma once

#include <filesystem>
#include <memory>

#include "quantizers/registry.h"
#include "quantizers/xnnpack_quantizer.h"

namespace octet {

// What a configuration starts from, and what the caller sets whatever it says.
SymmetricOptions default_symmetric_options(const QuantizerOptions& options);
void apply_overrides(SymmetricOptions& symmetric, const QuantizerOptions& options);

// Throws Error("quantizer", "file.json: /global/act_qmin", "got \"x\", want an int") for each fault, with the JSON path of the place.
std::unique_ptr<XNNPACKQuantizer> read_json_quantizer(const std::filesystem::path& path, const QuantizerOptions& options);

// Sets the rows of a file without "base" on an existing quantizer; a row that is set already is replaced. Throws likewise.
void apply_json_config(XNNPACKQuantizer& quantizer, const std::filesystem::path& path, const QuantizerOptions& options);

}  // namespace octet
