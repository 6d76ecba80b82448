// Static and dynamic int8 for mobile kernels: XNNPACK, and QNNPACK under its older name.
#pragma once

#include "annotate/annotation/quantizer.h"
#include "quantizers/common/compat.h"
#include "quantizers/common/module_filter.h"
#include "quantizers/xnnpack/config.h"

namespace octet {

struct RuleState;

// Annotates what the tables in rules.h list. A config of nullopt leaves the nodes that it covers
// float. Nothing is annotated until a config is set. Setters return *this.
class XNNPACKQuantizer : public Quantizer {
 public:
  explicit XNNPACKQuantizer(Compat compat = Compat::kNone, std::string name = "xnnpack")
      : compat_(compat), name_(std::move(name)) {}

  XNNPACKQuantizer& set_global(std::optional<QuantizationConfig> config);
  // `name` as in nn_module_stack: "block.conv"; covers everything within.
  XNNPACKQuantizer& set_module_name(const std::string& name,
                                    std::optional<QuantizationConfig> config);
  // `type` as torch prints it: "torch.nn.modules.linear.Linear" or "torch.nn.Linear".
  XNNPACKQuantizer& set_module_type(const std::string& type,
                                    std::optional<QuantizationConfig> config);
  // `op`: "aten.linear.default", "aten.linear" or "linear".
  XNNPACKQuantizer& set_operator_type(const std::string& op,
                                      std::optional<QuantizationConfig> config);
  // The whole path of a module matches; and the n-th call of an op. Both throw Error in compat.
  XNNPACKQuantizer& set_module_name_regex(const std::string& regex,
                                          std::optional<QuantizationConfig> config);
  XNNPACKQuantizer& set_call_index(const CallIndex& call, std::optional<QuantizationConfig> config);
  // Only nodes for which it returns true are quantized.
  XNNPACKQuantizer& set_filter_function(NodeFilter filter);
  // What the setters have filled in; for where each row was said.
  ConfigTable& rows() { return configs_; }

  std::string name() const override { return name_; }
  void check_model(const Graph& model) const override;
  void transform_for_annotation(Graph& graph) override;
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  void annotate_own(Graph& graph, Annotations& annotations, RuleState& state) const;
  void annotate_compat(Graph& graph, Annotations& annotations, RuleState& state) const;
  // compat: one config with the filter of its setter. `op` restricts the rows to those of one
  // operator type, "" does not.
  struct Run;
  void annotate_run(Graph& graph, const Run& run, Annotations& annotations, RuleState& state) const;
  bool has_static_config() const;

  Compat compat_;
  std::string name_;
  ConfigTable configs_;
  NodeFilter filter_;
};

}  // namespace octet
