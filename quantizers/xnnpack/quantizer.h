// Quantizes to static or dynamic int8 for mobile kernels: XNNPACK, and its predecessor QNNPACK.
#pragma once

#include "quantizers/common/configurable_quantizer.h"
#include "quantizers/common/extra_options.h"

namespace octet {

// QNNPACK-style symmetric configurations: int8 activations per tensor, int8 weights with zero point
// 0.

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

struct RuleState;

// Annotates by the tables in rules.h. A config of nullopt leaves nodes float. Nothing is annotated
// until a config is set. Setters return *this.
class XNNPACKQuantizer : public ConfigurableQuantizer, public RowSetters<XNNPACKQuantizer> {
 public:
  explicit XNNPACKQuantizer(Compat compat = Compat::kNone, std::string name = "xnnpack")
      : ConfigurableQuantizer(std::move(name), {}, compat) {}

  // Only nodes for which `filter` returns true are quantized.
  XNNPACKQuantizer& set_filter_function(NodeFilter filter);

  void transform_for_annotation(Graph& graph) override;
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  void annotate_own(Graph& graph, Annotations& annotations, RuleState& state) const;
  void annotate_compat(Graph& graph, Annotations& annotations, RuleState& state) const;
  // compat: one config with the filter of its setter. op: restricts the rows to one operator type;
  // "" does not.
  struct Run;
  void annotate_run(Graph& graph, const Run& run, Annotations& annotations, RuleState& state) const;
  bool has_static_config() const;

  NodeFilter filter_;
};

}  // namespace octet
