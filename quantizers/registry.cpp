// The list of built-in quantizers.
#include "quantizers/registry.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "quantizers/json_quantizer.h"
#include "quantizers/xnnpack_quantizer.h"

namespace octet {

namespace {

constexpr std::array<const char*, 2> kNames = {"qnnpack", "xnnpack"};

bool is_json_path(const std::string& text) { return text.ends_with(".json") || text.find('/') != std::string::npos; }

}  // namespace

std::vector<std::string> quantizer_names() { return {kNames.begin(), kNames.end()}; }

std::unique_ptr<Quantizer> make_quantizer(const std::string& name_or_json_path, const QuantizerOptions& options) {
  std::unique_ptr<XNNPACKQuantizer> result;
  if (std::find(kNames.begin(), kNames.end(), name_or_json_path) != kNames.end()) {
    SymmetricOptions symmetric = default_symmetric_options(options);
    symmetric.is_per_channel = true;
    apply_overrides(symmetric, options);
    result = std::make_unique<XNNPACKQuantizer>(options.compat_torchao ? Compat::kTorchao : Compat::kNone, name_or_json_path);
    result->set_global(get_symmetric_quantization_config(symmetric));
  } else if (name_or_json_path.find(',') != std::string::npos) {
    throw Error("quantizer", name_or_json_path, "several quantizers at once are not in this build, want one; quantize with each in turn");
  } else if (is_json_path(name_or_json_path)) {
    result = read_json_quantizer(name_or_json_path, options);
  } else {
    throw Error("quantizer", fmt::format("\"{}\"", name_or_json_path),
                fmt::format("not in this build, want {} or the path of a .json file", fmt::join(kNames, ", ")));
  }
  if (!options.config.empty()) apply_json_config(*result, options.config, options);
  return result;
}

}  // namespace octet
