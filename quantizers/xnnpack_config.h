// The configurations of QNNPACK-style symmetric quantization: int8 activations per tensor, int8 weights with zero point 0.
#pragma once

#include <optional>

#include "annotate/annotation.h"

namespace octet {

// Arguments and defaults as in ExecuTorch's get_symmetric_quantization_config; below the line, what it lacks.
struct SymmetricOptions {
  bool is_per_channel = false;  // one weight scale per output channel
  bool is_dynamic = false;      // activations get their scale at run time; outputs stay float
  int64_t act_qmin = -128;
  int64_t act_qmax = 127;
  int64_t weight_qmin = -127;
  int64_t weight_qmax = 127;
  // ----
  bool is_weight_only = false;                       // activations stay float; linear, convolution and embedding
  bool is_per_token = false;                         // dynamic activations of linear get one scale per row (of convolutions: per image)
  int64_t weight_bits = 8;                           // 8, or 4: stored as int8 in -8 .. 7
  std::optional<int64_t> group_size = std::nullopt;  // input channels that share a weight scale; 0: no groups; absent: 32 with 4 bits, none with 8
  std::optional<ObserverChoice> act_observer = std::nullopt;     // instead of histogram; not with dynamic or float activations
  std::optional<ObserverChoice> weight_observer = std::nullopt;  // instead of min-max; not with groups
  bool operator==(const SymmetricOptions&) const = default;
};

// Activations: affine, histogram observer (placeholder when dynamic). Weights: symmetric min-max, channel axis 0. Bias float. eps 2^-12.
// Weights alone, groups and scales per token: see weight_only.h.
// Throws Error("quantizer", option, ...) when a range is empty, lies outside of int8, or does not contain 0, for options that contradict each other, and as choose_observer
// does.
QuantizationConfig get_symmetric_quantization_config(const SymmetricOptions& options = {});

}  // namespace octet
