// Options that a caller (the command line) sets for all quantizers, overriding their
// configurations.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "annotate/annotation/quant_spec.h"

namespace octet {

struct QuantizerOptions {
  Compat compat = Compat::kNone;
  // Options that are set override every configuration. The built-in names default to per-channel,
  // static quantization with 8-bit weights.
  std::optional<bool> is_per_channel = {};
  std::optional<bool> is_dynamic = {};
  std::optional<bool> is_weight_only = {};      // activations stay float
  std::optional<int64_t> weight_bits = {};      // 16, 8, 4, 3 or 2
  std::optional<int64_t> activation_bits = {};  // 8 or 16
  // input channels that share a weight scale; 0: no groups
  std::optional<int64_t> group_size = {};
  std::optional<bool> reduce_range = {};  // activations use half of their range
  // default of additional rows; set for the built-in names, not in compat
  bool rows_are_per_channel = false;
  // for training: fake-quants unless a configuration says otherwise; if false, no configuration may
  // ask for them
  bool is_qat = false;
  // in training: fake-quants with trained scales (lsq_fake_quantize)
  bool learns_ranges = false;
  // a JSON file with additional rows (quantizers/json/quantizer.h); may be empty
  std::filesystem::path config = {};
  // such rows as text, which override the file's; may be empty
  std::string config_text = {};
};

}  // namespace octet
