// Int8 configurations for x86 servers: uint8 activations per tensor, int8 weights per output
// channel with zero point 0.
#pragma once

#include "quantizers/common/extra_options.h"

namespace octet {

// Arguments and defaults as in torchao's get_default_x86_inductor_quantization_config, with
// additional options.
struct X86InductorOptions {
  bool is_qat = false;      // for training: fake-quants (to_qat_config)
  bool is_dynamic = false;  // activations get their scale at run time
  // activations in 0 .. 127, for CPUs without VNNI, whose 16-bit sums of u8 x s8 products saturate
  bool reduce_range = false;
  OwnOptions own = {};
  bool operator==(const X86InductorOptions&) const = default;
};

// Activations: uint8 affine, histogram observer (placeholder when dynamic). Weights: int8 symmetric
// min-max, channel axis 0. Bias float. eps 2^-12. weight_only.h describes weight-only
// configurations, groups and scales per token. Throws Error("quantizer", option, ...) as own_config
// does.
QuantizationConfig get_default_x86_inductor_quantization_config(
    const X86InductorOptions& options = {});

// For linear ops only: weights are stored as float16 and used as float32; activations stay float.
QuantizationConfig get_x86_inductor_linear_dynamic_fp16_config();

}  // namespace octet
