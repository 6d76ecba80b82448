// A quantizer with settings, which come from JSON files, from --config (global, op_type,
// module_type, module_name_regex, module_name, call_index), or from code. To write one:
//   class AcmeQuantizer : public ConfigurableQuantizer {
//    public:
//     AcmeQuantizer() : ConfigurableQuantizer("acme") {}
//     void annotate(Graph& graph, Annotations& annotations, Report& report) override {
//       RuleState state;
//       annotate_by_rules(graph, kRules, by_settings(), annotations, state);
//       report_float_ops(graph, annotations, state, report);
//     }
//   };
//   register_quantizer("acme", [](const QuantizerOptions&) {
//     return std::make_unique<AcmeQuantizer>();
//   });
//
// Then {"base": "acme", "module_name": {"head": null}} leaves head float. A quantizer without rules
// calls config_of(node) before it annotates a node.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "annotate/annotation/quant_spec.h"
#include "annotate/annotation/quantizer.h"
#include "annotate/rules/annotation_rule.h"
#include "core/base/error.h"
#include "quantizers/common/module_filter.h"

namespace octet {

class ConfigurableQuantizer : public Quantizer {
 public:
  // configs: what settings choose from. The first one applies for {} and as the global one until
  // another is set; the others are chosen by name ({"dtype_config": "int16"},
  // QuantizationConfig::dtype_config). If empty, nothing is quantized until a row is set. The
  // default suits quantizers whose specs are elsewhere: settings then only decide what stays float.
  explicit ConfigurableQuantizer(std::string name,
                                 std::vector<QuantizationConfig> configs = {QuantizationConfig()},
                                 Compat compat = Compat::kNone);

  std::string name() const override { return name_; }
  // Throws Error for rows that name something the model lacks (config_check.h), except in compat.
  void check_model(const Graph& model) const override;

  // A config of nullopt leaves what the row covers float. Throws Error as ConfigTable::set does,
  // and in compat for expressions and calls. place: where the row is defined, for messages.
  void set_row(const RowKey& row, ConfigTable::Config config, const std::string& place = {});

  const ConfigTable& rows() const { return rows_; }
  const std::vector<QuantizationConfig>& configs() const { return configs_; }

  // The config of a node according to the settings, or none and why.
  ConfigTable::Choice config_of(const Node& node) const { return rows_.find(node); }
  // The config of a match, which is that of its innermost op. None without a reason when the
  // settings leave another op of the match float, so that a shorter rule can take the rest.
  ConfigChoice config_of(const Match& match) const;
  // Whether the match has a batch norm but its config is not for training. Outside of training a
  // batch norm is folded or remains an op, so it does not belong to the convolution's pattern.
  bool has_norm_outside_of_training(const Match& match) const;
  // For annotate_by_rules; valid as long as this object.
  ConfigOf by_settings() const;
  // Adds an entry for each compute op without annotation, with the reason.
  void report_float_ops(const Graph& graph, const Annotations& annotations, const RuleState& state,
                        Report& report, std::span<const std::string> sharing_ops = {}) const;

 protected:
  // Called before a row is set. Returns the row to store, or nullopt to skip it.
  virtual std::optional<RowKey> accept_row(const RowKey& row, const ConfigTable::Config&) {
    return row;
  }
  bool is_compat() const { return compat_ == Compat::kTorchao; }

 private:
  std::string name_;
  std::vector<QuantizationConfig> configs_;
  Compat compat_;
  ConfigTable rows_;
};

// Setters for single rows that can be chained. Kind is the quantizer's class.
template <typename Kind>
class RowSetters {
 public:
  Kind& set_global(ConfigTable::Config config) { return set({}, std::move(config)); }
  // op: "aten.linear.default", "aten.linear" or "linear".
  Kind& set_operator_type(const std::string& op, ConfigTable::Config config) {
    return set({RowKind::kOpType, op}, std::move(config));
  }
  // type: as torch prints it, "torch.nn.modules.linear.Linear" or "torch.nn.Linear".
  Kind& set_module_type(const std::string& type, ConfigTable::Config config) {
    return set({RowKind::kModuleType, type}, std::move(config));
  }
  // Matches whole paths. Not in compat.
  Kind& set_module_name_regex(const std::string& regex, ConfigTable::Config config) {
    return set({RowKind::kModuleNameRegex, regex}, std::move(config));
  }
  // name: as in nn_module_stack, "block.conv"; covers everything inside.
  Kind& set_module_name(const std::string& name, ConfigTable::Config config) {
    return set({RowKind::kModuleName, name}, std::move(config));
  }
  // Not in compat.
  Kind& set_call_index(const CallIndex& call, ConfigTable::Config config) {
    return set({RowKind::kCallIndex, {}, call}, std::move(config));
  }

 private:
  Kind& set(const RowKey& row, ConfigTable::Config config) {
    Kind& self = static_cast<Kind&>(*this);
    self.set_row(row, std::move(config));
    return self;
  }
};

// Adds settings to a quantizer that has none.
//
// Behaves as `quantizer`, any subclass of Quantizer, but leaves the ops float that the settings
// leave float: while it runs, these ops are annotated without specs, so that its rules skip them as
// if another quantizer had annotated them. Annotations that it adds there nevertheless are dropped.
// Registered quantizers get this automatically. Not null. Throws Error as the quantizer does.
std::unique_ptr<ConfigurableQuantizer> with_settings(std::unique_ptr<Quantizer> quantizer);

// A quantizer that forwards to another one; subclasses override what differs.

// Base: Quantizer, or a subclass that is constructed from `arguments` and gives the name.
template <class Base>
class ForwardingQuantizer : public Base {
 public:
  // `inner` is not null; it is moved from after `arguments` are used.
  template <class... Arguments>
  explicit ForwardingQuantizer(std::unique_ptr<Quantizer>&& inner, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), inner_(std::move(inner)) {
    OCTET_ASSERT(inner_ != nullptr, "null quantizer");
  }

  const std::vector<OpaquePart>* opaque_parts() const override { return inner_->opaque_parts(); }
  void transform_for_annotation(Graph& graph) override { inner_->transform_for_annotation(graph); }
  void annotate(Graph& graph, Annotations& annotations, Report& report) override {
    inner_->annotate(graph, annotations, report);
  }
  void validate(const Graph& graph, const Annotations& annotations) override {
    inner_->validate(graph, annotations);
  }
  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override {
    inner_->prepare_obs_or_fq_callback(graph, observers);
  }

 protected:
  Quantizer& inner() const { return *inner_; }

 private:
  std::unique_ptr<Quantizer> inner_;
};

}  // namespace octet
