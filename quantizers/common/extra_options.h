// Options of int8 configurations beyond torchao's arguments, and the specs that follow from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "annotate/annotation/annotation.h"
#include "core/base/dtype.h"

namespace octet {

struct OwnOptions {
  // activations stay float; linear, convolution and embedding
  bool is_weight_only = false;
  // dynamic activations of linear get one scale per row (of convolutions: per image)
  bool is_per_token = false;
  // weights from the range of least squared error instead of minimum to maximum; not in training
  bool search_weight_ranges = false;
  int64_t weight_bits = 8;  // 8, or 4: stored as int8 in -8 .. 7
  // input channels that share a weight scale; 0: no groups; absent: 32 with 4 bits, none with 8
  std::optional<int64_t> group_size = std::nullopt;
  // instead of histogram; not with dynamic or float activations
  std::optional<ObserverChoice> act_observer = std::nullopt;
  // instead of those of the ranges; not with groups
  std::optional<ObserverChoice> weight_observer = std::nullopt;
  // in training: lsq_fake_quantize for static activations and weights without groups
  bool learns_ranges = false;
  bool operator==(const OwnOptions&) const = default;
};

// Half of the activations' range, as observers with reduce_range have it: -128 .. 127 -> -64 .. 63,
// 0 .. 255 -> 0 .. 127. The range itself when act_observer has reduce_range, which halves it.
IntegerRange reduced_range(const OwnOptions& options, DType dtype, IntegerRange range);

// The observer of weights without groups: of least squared error, or min-max.
std::string weight_observer_name(bool search_weight_ranges, bool is_per_channel);

// Weights of 8 bits with one scale per output channel or per tensor, which the peers have too;
// other weights are weight_only.h's.
bool has_plain_weights(const OwnOptions& options);
QuantizationSpec plain_weight_spec(const OwnOptions& options, bool is_per_channel,
                                   IntegerRange range);
// Affine, from a histogram; dynamic ones get their scale at run time, per token if the options say
// so, else per tensor.
QuantizationSpec activation_spec(const OwnOptions& options, DType dtype, IntegerRange range,
                                 bool is_dynamic);

// The configuration of these specs: the chosen observers in place, activations left out with
// weights alone, `outputs` whether outputs are observed as inputs are. Throws Error("quantizer",
// option, ...) for is_weight_only beside `activation` being dynamic or act_observer, and for an
// observer that does not fit.
QuantizationConfig own_config(const OwnOptions& options, QuantizationSpec weight,
                              QuantizationSpec activation, bool outputs);

// The configuration for training: fake-quants in the place of observers.
//
// `config` as made for calibration. Static activations and weights get the moving average with its
// fake-quant in one op (fused_moving_avg_obs_fake_quantize), or one whose scale is trained
// (options.learns_ranges: lsq_fake_quantize); dynamic activations a fake-quant of each batch's own
// range (fake_quantize), groups and tokens one with a scale for each (affine_fake_quantize), of
// weights by their present range; observers that the options name a fake-quant around them.
QuantizationConfig to_qat_config(QuantizationConfig config, const OwnOptions& options);

}  // namespace octet
