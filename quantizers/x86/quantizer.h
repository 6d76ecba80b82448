// Int8 for x86 servers (oneDNN): static, dynamic, and float16 weights of linear ops.
#pragma once

#include "quantizers/common/configurable_quantizer.h"
#include "quantizers/x86/config.h"

namespace octet {

struct RuleState;

// Annotates what the tables in rules.h list: convolutions and linear ops with the elementwise ops
// that follow, mul, matmul where it is named, and pooling, cat and flatten between quantized ops. A
// config of nullopt leaves the nodes that it covers float. Nothing is annotated until a config is
// set. Setters return *this. Static and dynamic configs, or those of training and of calibration,
// do not mix: a config that is unlike those of the other rows is skipped, and the report says so.
// compat: unlike its own row's former config as well.
class X86InductorQuantizer : public ConfigurableQuantizer, public RowSetters<X86InductorQuantizer> {
 public:
  explicit X86InductorQuantizer(Compat compat = Compat::kNone, std::string name = "x86")
      : ConfigurableQuantizer(std::move(name), {}, compat) {}

  // torchao's names of set_operator_type, which takes "torch.nn.functional.linear" and
  // "torch.matmul" too, of set_module_type and of set_module_name. compat: a class stands for the
  // ops of that kind everywhere.
  X86InductorQuantizer& set_function_type_qconfig(const std::string& op,
                                                  ConfigTable::Config config) {
    return set_operator_type(op, std::move(config));
  }
  X86InductorQuantizer& set_module_type_qconfig(const std::string& type,
                                                ConfigTable::Config config) {
    return set_module_type(type, std::move(config));
  }
  X86InductorQuantizer& set_module_name_qconfig(const std::string& name,
                                                ConfigTable::Config config) {
    return set_module_name(name, std::move(config));
  }

  void transform_for_annotation(Graph& graph) override;
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;

 private:
  // Keeps ops by the names that nodes have; skips what does not go with the other rows.
  std::optional<RowKey> accept_row(const RowKey& row, const ConfigTable::Config& config) override;
  // Why the rows set so far keep this one out; empty when they do not. compat: the row that it
  // would replace counts among them.
  std::string objection_to(const RowKey& row, const ConfigTable::Config& config) const;
  void annotate_own(Graph& graph, Annotations& annotations, RuleState& state) const;
  void annotate_compat(Graph& graph, Annotations& annotations, RuleState& state,
                       Report& report) const;

  std::vector<std::string> notes_;  // of skipped rows, for the report
};

}  // namespace octet
