// Configurations for training: fake-quants in the place of observers.
#pragma once

#include "quantizers/own_options.h"

namespace octet {

// What a configuration for training is made from: weights of 4 bits have no groups unless the options ask for them.
OwnOptions options_for_training(OwnOptions options);

// `config` as made for calibration. Static activations and weights get the moving average with its fake-quant in one op
// (fused_moving_avg_obs_fake_quantize), dynamic activations a fake-quant of each batch's own range (fake_quantize), and observers that the options
// name a fake-quant around them. Throws Error("quantizer", option, ...) for groups and for scales per token, which fake-quants lack.
QuantizationConfig to_qat_config(QuantizationConfig config, const OwnOptions& options);

}  // namespace octet
