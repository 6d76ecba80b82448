// Quantizes for x86 servers (oneDNN): static or dynamic int8, or float16 weights of linear ops.
#pragma once

#include "quantizers/common/configurable_quantizer.h"
#include "quantizers/common/extra_options.h"

namespace octet {

// Arguments and defaults as in torchao's get_default_x86_inductor_quantization_config, with
// additional options.
struct X86InductorOptions {
  bool is_qat = false;      // for training: fake-quants (to_qat_config)
  bool is_dynamic = false;  // activations get their scale at run time
  // activations in 0 .. 127, for CPUs without VNNI, whose 16-bit sums of u8 x s8 products saturate
  bool reduce_range = false;
  OwnOptions own = {};
  bool operator==(const X86InductorOptions&) const = default;
};

// Activations: uint8 affine, histogram observer (placeholder when dynamic). Weights: int8 symmetric
// min-max, channel axis 0. Bias float. eps 2^-12. weight_only.h describes weight-only
// configurations, groups and scales per token. Throws Error("quantizer", option, ...) as own_config
// does.
QuantizationConfig get_default_x86_inductor_quantization_config(
    const X86InductorOptions& options = {});

// For linear ops only: weights are stored as float16 and used as float32; activations stay float.
QuantizationConfig get_x86_inductor_linear_dynamic_fp16_config();

struct RuleState;

// Annotates by the tables in rules.h: convolutions and linear ops with the elementwise ops after
// them, mul, matmul where a setting names it, and pooling, cat and flatten between quantized ops. A
// config of nullopt leaves nodes float. Nothing is annotated until a config is set. Setters return
// *this. Static and dynamic configs do not mix, nor do those for training and calibration: a config
// that conflicts with those of other rows is skipped, and the report says so. compat: a config also
// conflicts with the row's previous one.
class X86InductorQuantizer : public ConfigurableQuantizer, public RowSetters<X86InductorQuantizer> {
 public:
  explicit X86InductorQuantizer(Compat compat = Compat::kNone, std::string name = "x86")
      : ConfigurableQuantizer(std::move(name), {}, compat) {}

  // torchao's names for set_operator_type (which also accepts "torch.nn.functional.linear" and
  // "torch.matmul"), set_module_type and set_module_name. compat: a class represents the ops of
  // that kind everywhere.
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
  // Renames ops to the names of nodes, and skips rows that conflict with others.
  std::optional<RowKey> accept_row(const RowKey& row, const ConfigTable::Config& config) override;
  // Why existing rows conflict with this one; empty when they do not. compat: also checks the row
  // that it would replace.
  std::string objection_to(const RowKey& row, const ConfigTable::Config& config) const;
  void annotate_own(Graph& graph, Annotations& annotations, RuleState& state) const;
  void annotate_compat(Graph& graph, Annotations& annotations, RuleState& state,
                       Report& report) const;

  std::vector<std::string> notes_;  // about skipped rows, for the report
};

}  // namespace octet
