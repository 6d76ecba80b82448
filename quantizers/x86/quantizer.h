// Int8 for x86 servers (oneDNN): static, dynamic, and float16 weights of linear ops.
#pragma once

#include "annotate/annotation/quantizer.h"
#include "quantizers/common/compat.h"
#include "quantizers/common/module_filter.h"
#include "quantizers/x86/config.h"

namespace octet {

struct RuleState;

// Annotates what the tables in rules.h list: convolutions and linear ops with the elementwise ops
// behind them, mul, matmul where it is named, and pooling, cat and flatten between quantized ops. A
// config of nullopt leaves the nodes that it covers float. Nothing is annotated until a config is
// set. Setters return *this. Static and dynamic configs, or those of training and of calibration,
// do not mix: a config that is unlike those of the other rows is skipped, and the report says so.
// compat: unlike its own row's former config as well.
class X86InductorQuantizer : public Quantizer {
 public:
  explicit X86InductorQuantizer(Compat compat = Compat::kNone, std::string name = "x86")
      : compat_(compat), name_(std::move(name)) {}

  X86InductorQuantizer& set_global(std::optional<QuantizationConfig> config);
  // `op`: "torch.nn.functional.linear", "torch.matmul", "aten.linear.default", "aten.linear" or
  // "linear".
  X86InductorQuantizer& set_function_type_qconfig(const std::string& op,
                                                  std::optional<QuantizationConfig> config);
  // `type` as torch prints it: "torch.nn.modules.linear.Linear" or "torch.nn.Linear". compat:
  // stands for the ops of that kind everywhere.
  X86InductorQuantizer& set_module_type_qconfig(const std::string& type,
                                                std::optional<QuantizationConfig> config);
  // `name` as in nn_module_stack: "block.conv"; covers everything within.
  X86InductorQuantizer& set_module_name_qconfig(const std::string& name,
                                                std::optional<QuantizationConfig> config);
  // The whole path of a module matches; and the n-th call of an op. Both throw Error in compat.
  X86InductorQuantizer& set_module_name_regex(const std::string& regex,
                                              std::optional<QuantizationConfig> config);
  X86InductorQuantizer& set_call_index(const CallIndex& call,
                                       std::optional<QuantizationConfig> config);
  // What the setters have filled in; for where each row was said.
  ConfigTable& rows() { return configs_; }

  std::string name() const override { return name_; }
  void check_model(const Graph& model) const override;
  void transform_for_annotation(Graph& graph) override;
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  // Whether the rows set so far keep this one out. compat: the row that it would replace counts
  // among them.
  bool skips(const std::string& row, const ConfigTable::Config& config,
             const ConfigTable::Config* replaced);
  void annotate_own(Graph& graph, Annotations& annotations, RuleState& state) const;
  void annotate_compat(Graph& graph, Annotations& annotations, RuleState& state,
                       Report& report) const;

  Compat compat_;
  std::string name_;
  ConfigTable configs_;
  std::vector<std::string> notes_;  // of skipped rows, for the report
};

}  // namespace octet
