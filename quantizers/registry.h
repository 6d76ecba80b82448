// Names -> quantizers.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "annotate/quantizer.h"

namespace octet {

struct QuantizerOptions {
  bool compat_torchao = false;         // the peer's choices, its defects included
  std::optional<bool> is_per_channel;  // overrides what each configuration says; the built-in names are per channel without it
  std::optional<bool> is_dynamic;      // likewise; the built-in names are static without it
  std::optional<bool> is_weight_only;  // likewise; activations stay float
  std::optional<int64_t> weight_bits;  // likewise: 8 or 4
  std::optional<int64_t> group_size;   // likewise: input channels that share a weight scale, 0 for no groups
  std::filesystem::path config;        // a JSON file whose global, op_type, module_type and module_name are set on top; may be empty
};

// The built-in names of this build: qnnpack, xnnpack.
std::vector<std::string> quantizer_names();

// A built-in name, or the path of a JSON file (see json_quantizer.h). Throws Error("quantizer", ...) when it is neither, listing the names,
// and for each fault in a file.
std::unique_ptr<Quantizer> make_quantizer(const std::string& name_or_json_path, const QuantizerOptions& options = {});

}  // namespace octet
