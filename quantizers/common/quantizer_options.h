// What a caller (the command line) says of every quantizer, whatever its configuration says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "quantizers/common/compat.h"

namespace octet {

struct QuantizerOptions {
  bool compat_torchao = false;              // the peer's choices, its defects included
  std::optional<bool> is_per_channel = {};  // overrides what each configuration says; the built-in names are per channel without it
  std::optional<bool> is_dynamic = {};      // likewise; the built-in names are static without it
  std::optional<bool> is_weight_only = {};  // likewise; activations stay float
  std::optional<int64_t> weight_bits = {};  // likewise: 8 or 4
  std::optional<int64_t> group_size = {};   // likewise: input channels that share a weight scale, 0 for no groups
  std::optional<bool> reduce_range = {};    // likewise: activations in half of their range
  bool is_qat = false;                      // for training: fake-quants, unless a configuration says otherwise; without it none may ask for them
  bool learns_ranges = false;               // in training, fake-quants whose scales can be trained (lsq_fake_quantize)
  std::filesystem::path config = {};        // a JSON file whose rows (see quantizers/json/quantizer.h) are set on top; may be empty

  Compat compat() const { return compat_torchao ? Compat::kTorchao : Compat::kNone; }
};

}  // namespace octet
