// What a caller (the command line) says of every quantizer, whatever its configuration says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "annotate/annotation/quant_spec.h"

namespace octet {

struct QuantizerOptions {
  Compat compat = Compat::kNone;
  // overrides what each configuration says; the built-in names are per channel without it
  std::optional<bool> is_per_channel = {};
  std::optional<bool> is_dynamic = {};      // likewise; the built-in names are static without it
  std::optional<bool> is_weight_only = {};  // likewise; activations stay float
  std::optional<int64_t> weight_bits = {};  // likewise: 8 or 4
  // likewise: input channels that share a weight scale, 0 for no groups
  std::optional<int64_t> group_size = {};
  std::optional<bool> reduce_range = {};  // likewise: activations in half of their range
  // what rows on top are that do not say so: set for the built-in names, without compat
  bool rows_are_per_channel = false;
  // for training: fake-quants, unless a configuration says otherwise; without it none may ask for
  // them
  bool is_qat = false;
  // in training, fake-quants whose scales can be trained (lsq_fake_quantize)
  bool learns_ranges = false;
  // a JSON file whose rows (see quantizers/json/quantizer.h) are set on top; may be empty
  std::filesystem::path config = {};
  // the same as text, set on top of that; may be empty
  std::string config_text = {};
};

}  // namespace octet
