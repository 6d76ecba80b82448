// What the quantizers share of int8 and int4 weights: weight-only configurations, groups of input
// channels with a scale each, activations with one scale per token, and the rules of weight-only
// quantization.
#pragma once

#include <list>
#include <optional>
#include <span>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// of 4-bit weights: what XNNPACK's and oneDNN's kernels take
constexpr int64_t kDefaultGroupSize = 32;

struct WeightOptions {
  int64_t bits = 8;            // 8, or 4: stored as int8 in -8 .. 7
  bool is_per_channel = true;  // one scale per output channel; groups go further
  // input channels that share a scale; 0: no groups; absent: 32 with 4 bits, none with 8
  std::optional<int64_t> group_size;
  // the range of least squared error instead of minimum to maximum
  bool search_weight_ranges = false;
};

// Symmetric, zero point 0. Groups: affine_min_max or affine_mse per group; else as
// weight_observer_name() says. Throws Error("quantizer", option, ...) for other numbers of bits,
// for group sizes below 2 but 0, for groups of per-tensor weights, and for 4 bits with one scale
// per tensor.
QuantizationSpec weight_spec(const WeightOptions& options);
// Dynamic, asymmetric, one scale per row of the last dimension.
QuantizationSpec per_token_spec(DType dtype, int64_t quant_min, int64_t quant_max);

// weight_spec() and nothing else.
QuantizationConfig get_weight_only_config(const WeightOptions& options);
// Whether the config has a spec for weights alone, and integers for them.
bool is_weight_only(const QuantizationConfig& config);

// linear, convolutions, transposed convolutions and embedding: only the weight has a spec.
std::span<const AnnotationRule> weight_only_rules();

// Slot w is float32.
Verdict weight_is_float32(const RuleMatch& at);
// The group size of the weight's spec, if it has one, divides the rows of slot w (linear,
// embedding).
Verdict groups_divide_weight(const RuleMatch& at);

// Configs speak of groups and tokens; convolutions have neither. Owns what it makes.
class ConfigFitter {
 public:
  // The config for the op `match.nodes.back()`: of convolutions, a group becomes a block of whole
  // kernels, as many input channels as fit into a group and divide them all, and a token becomes an
  // image. For anything else, the config itself. Valid as long as the fitter and `config`.
  const QuantizationConfig* fit(const QuantizationConfig& config, const Match& match);

 private:
  std::list<QuantizationConfig> made_;
};

}  // namespace octet
