// Options of int8 configurations that torchao lacks, and the specs that they imply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "annotate/annotation/annotation.h"
#include "core/base/dtype.h"

namespace octet {

struct OwnOptions {
  // activations stay float; applies to linear, convolution and embedding
  bool is_weight_only = false;
  // dynamic activations of linear get one scale per row (convolutions: per image)
  bool is_per_token = false;
  // weight ranges minimize the squared error instead of spanning minimum to maximum; not in
  // training
  bool search_weight_ranges = false;
  // 8; 4, 3 or 2: stored as int8 in -8 .. 7, -4 .. 3 or -2 .. 1; 16: int16, needs
  // activation_bits 16
  int64_t weight_bits = 8;
  // 8, or 16: static activations of int16, symmetric; not with reduce_range, act_qmin or act_qmax
  int64_t activation_bits = 8;
  // input channels that share a weight scale; 0: no groups; absent: 32 with less than 8 bits
  std::optional<int64_t> group_size = std::nullopt;
  // replaces histogram; not with dynamic or float activations
  std::optional<ObserverChoice> act_observer = std::nullopt;
  // replaces the observer of the weight ranges; not with groups
  std::optional<ObserverChoice> weight_observer = std::nullopt;
  // in training: lsq_fake_quantize for static activations and weights without groups
  bool learns_ranges = false;
  bool operator==(const OwnOptions&) const = default;
};

// Half of the activations' range, as observers with reduce_range compute it: -128 .. 127 -> -64 ..
// 63, 0 .. 255 -> 0 .. 127. Returns `range` when act_observer has reduce_range and halves it
// itself.
IntegerRange reduced_range(const OwnOptions& options, DType dtype, IntegerRange range);

// The observer of weights without groups: minimal squared error, or min-max.
std::string weight_observer_name(bool search_weight_ranges, bool is_per_channel);

// Whether weights have 8 bits and one scale per output channel or per tensor, as in torchao and
// ExecuTorch. weight_only.h handles other weights.
bool has_plain_weights(const OwnOptions& options);
QuantizationSpec plain_weight_spec(const OwnOptions& options, bool is_per_channel,
                                   IntegerRange range);
// Affine, observed with a histogram. With 16 bits: symmetric in -32767 .. 32767, observed by
// min_max, because clipping gains nothing; dtype and range are ignored. Throws Error("quantizer",
// "activation_bits", ...) unless activation_bits is 8, or 16 and activations are static. Dynamic
// activations get their scale at run time: per token if the options say so, else per tensor.
QuantizationSpec activation_spec(const OwnOptions& options, DType dtype, IntegerRange range,
                                 bool is_dynamic);

// Makes a configuration of these specs with the chosen observers. Weight-only configurations leave
// out activations. outputs: whether outputs are observed as inputs are. Throws Error("quantizer",
// option, ...) for is_weight_only with a dynamic `activation` or act_observer, for int16 weights
// with other activations, and for an observer that does not fit.
QuantizationConfig own_config(const OwnOptions& options, QuantizationSpec weight,
                              QuantizationSpec activation, bool outputs);

// Converts a configuration to training: replaces observers by fake-quants.
//
// Static activations and weights get a moving average with its fake-quant in one op
// (fused_moving_avg_obs_fake_quantize), or with options.learns_ranges a trained scale
// (lsq_fake_quantize). Dynamic activations get a fake-quant of each batch's range (fake_quantize).
// Groups and tokens get one with separate scales (affine_fake_quantize), which for weights uses
// their current range. Observers that the options name are wrapped in a fake-quant. config: as made
// for calibration.
QuantizationConfig to_qat_config(QuantizationConfig config, const OwnOptions& options);

}  // namespace octet
