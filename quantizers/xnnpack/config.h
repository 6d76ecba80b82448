// QNNPACK-style symmetric configurations: int8 activations per tensor, int8 weights with zero point
// 0.
#pragma once

#include "quantizers/common/extra_options.h"

namespace octet {

// Arguments and defaults as in ExecuTorch's get_symmetric_quantization_config, with additional
// options.
struct SymmetricOptions {
  bool is_per_channel = false;  // one weight scale per output channel
  bool is_dynamic = false;      // activations get their scale at run time; outputs stay float
  bool is_qat = false;          // for training: fake-quants (to_qat_config)
  int64_t act_qmin = -128;
  int64_t act_qmax = 127;
  int64_t weight_qmin = -127;
  int64_t weight_qmax = 127;
  // activations in half of act_qmin .. act_qmax, for CPUs whose 16-bit sums of products saturate
  bool reduce_range = false;
  OwnOptions own = {};
  bool operator==(const SymmetricOptions&) const = default;
};

// Activations: affine, histogram observer (placeholder when dynamic). Weights: symmetric min-max,
// channel axis 0. Bias float. eps 2^-12. weight_only.h describes weight-only configurations, groups
// and scales per token. Throws Error("quantizer", option, ...) when a range is empty, exceeds int8,
// or excludes 0, and as own_config does.
QuantizationConfig get_symmetric_quantization_config(const SymmetricOptions& options = {});

}  // namespace octet
