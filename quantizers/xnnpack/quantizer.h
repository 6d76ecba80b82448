// Quantizes to static or dynamic int8 for mobile kernels: XNNPACK, and its predecessor QNNPACK.
#pragma once

#include "quantizers/common/configurable_quantizer.h"
#include "quantizers/xnnpack/config.h"

namespace octet {

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
