// Weights of 16, 8, 4, 3 and 2 bits for all quantizers: weight-only configurations and rules,
// groups of input channels with separate scales, and activations with one scale per token.
#pragma once

#include <list>
#include <optional>
#include <span>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// for weights of 4 bits or fewer, as XNNPACK's and oneDNN's kernels require
constexpr int64_t kDefaultGroupSize = 32;

struct WeightOptions {
  // 8; 4, 3 or 2: stored as int8 in -8 .. 7, -4 .. 3 or -2 .. 1; 16: int16 in -32767 .. 32767
  int64_t bits = 8;
  bool is_per_channel = true;  // one scale per output channel; groups subdivide it
  // input channels that share a scale; 0: no groups; absent: none with 8 and 16 bits, else 32
  std::optional<int64_t> group_size;
  // range of minimal squared error instead of minimum to maximum; 16 bits gain nothing from it
  bool search_weight_ranges = false;
};

// Symmetric, zero point 0. Observers: affine_min_max or affine_mse per group, else
// weight_observer_name(). Throws Error("quantizer", option, ...) for other numbers of bits, for
// group sizes below 2 except 0, for groups of per-tensor or 16-bit weights, and for fewer than 8
// bits with one scale per tensor.
QuantizationSpec weight_spec(const WeightOptions& options);
// Dynamic, asymmetric, one scale per row of the last dimension.
QuantizationSpec per_token_spec(DType dtype, int64_t quant_min, int64_t quant_max);

// Whether the config has a spec for weights only, with integers.
bool is_weight_only(const QuantizationConfig& config);

// Rules for linear, convolutions, transposed convolutions and embedding; only the weight has a
// spec.
std::span<const AnnotationRule> weight_only_rules();

// Slot w is float32.
Verdict weight_is_float32(const RuleMatch& at);
// If the weight's spec has a group size, it divides the rows of slot w (linear, embedding).
Verdict groups_divide_weight(const RuleMatch& at);

// Adapts configs to single ops: those with groups and tokens to convolutions, which have neither,
// and weights of few bits to tables. Owns the configs it makes.
class ConfigFitter {
 public:
  // global: the config of ops without a row; null: none. When it gives weights alone fewer than 8
  // bits, embedding tables get 8 bits in the same groups, except in training. So do linears whose
  // weight has the shape of such a table, which a language model ends with and often shares.
  ConfigFitter(const Graph& graph, const std::optional<std::optional<QuantizationConfig>>& global);
  // Returns the config for the op `match.nodes.back()`. For convolutions, a group becomes a block
  // of whole kernels (the most input channels that fit a group and divide the total), and a token
  // becomes an image. For other ops, returns `config`. Valid as long as the fitter and `config`.
  const QuantizationConfig* fit(const QuantizationConfig& config, const Match& match);

 private:
  bool is_table(const Match& match) const;

  const QuantizationConfig* global_ = nullptr;
  std::vector<std::vector<int64_t>> tables_;  // shapes
  std::list<QuantizationConfig> made_;
};

}  // namespace octet
