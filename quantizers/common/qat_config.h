// Configurations for training: fake-quants in the place of observers.
#pragma once

#include "quantizers/common/extra_options.h"

namespace octet {

// `config` as made for calibration. Static activations and weights get the moving average with its
// fake-quant in one op (fused_moving_avg_obs_fake_quantize), or one whose scale is trained
// (options.learns_ranges: lsq_fake_quantize); dynamic activations a fake-quant of each batch's own
// range (fake_quantize), groups and tokens one with a scale for each (affine_fake_quantize), of
// weights by their present range; observers that the options name a fake-quant around them.
QuantizationConfig to_qat_config(QuantizationConfig config, const OwnOptions& options);

}  // namespace octet
