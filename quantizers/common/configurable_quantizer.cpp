#include "quantizers/common/configurable_quantizer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "annotate/graph/float_ops.h"
#include "core/base/error.h"
#include "quantizers/common/config_check.h"
#include "quantizers/common/float_report.h"

namespace octet {

ConfigurableQuantizer::ConfigurableQuantizer(std::string name,
                                             std::vector<QuantizationConfig> configs, Compat compat)
    : name_(std::move(name)), configs_(std::move(configs)), compat_(compat) {
  if (!configs_.empty()) rows_.set({}, configs_.front());
}

void ConfigurableQuantizer::check_model(const Graph& model) const {
  if (!is_compat()) check_rows(rows_, name(), model);
}

void ConfigurableQuantizer::set_row(const RowKey& row, ConfigTable::Config config,
                                    const std::string& place) {
  refuse_in_compat(compat_, row.kind);
  const std::optional<RowKey> kept = accept_row(row, config);
  if (kept) rows_.set(*kept, std::move(config), place);
}

ConfigChoice ConfigurableQuantizer::config_of(const Match& match) const {
  const ConfigTable::Choice choice = config_of(*match.nodes.back());
  if (!choice.config) return {nullptr, choice.reason};
  if (!std::ranges::all_of(match.nodes, [&](const Node* node) { return config_of(*node).config; }))
    return {};
  return {choice.config, {}};
}

bool ConfigurableQuantizer::has_norm_outside_of_training(const Match& match) const {
  const bool has_norm = std::ranges::any_of(
      match.nodes, [](const Node* node) { return node->is("aten.batch_norm"); });
  if (!has_norm) return false;
  const ConfigTable::Choice choice = config_of(*match.nodes.back());
  return !choice.config || !choice.config->is_qat;
}

ConfigOf ConfigurableQuantizer::by_settings() const {
  return [this](const AnnotationRule&, const Match& match) { return config_of(match); };
}

void ConfigurableQuantizer::report_float_ops(const Graph& graph, const Annotations& annotations,
                                             const RuleState& state, Report& report,
                                             std::span<const std::string> sharing_ops) const {
  report_float_nodes(graph, annotations, {name(), rows_, {}, state, compute_ops(), sharing_ops},
                     report);
}

// ---- settings for other quantizers: claim ops, run the quantizer, release the claims

namespace {

class SettledQuantizer : public ForwardingQuantizer<ConfigurableQuantizer> {
 public:
  explicit SettledQuantizer(std::unique_ptr<Quantizer> inner)
      : ForwardingQuantizer(std::move(inner), inner->name()) {}

  void check_model(const Graph& model) const override {
    ConfigurableQuantizer::check_model(model);
    inner().check_model(model);
  }
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
};

void SettledQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  std::unordered_map<std::string, const Node*> left_float;
  for (const Node* node : graph.nodes()) {
    if (annotations.find(node)) continue;  // annotated by another quantizer
    const ConfigTable::Choice choice = config_of(*node);
    if (choice.config) continue;
    annotations[node].rule = choice.reason;
    left_float.emplace(node->name(), node);
    if (computes_on_floats(*node))
      report.add(
          {"annotate", node->name(), node->target(), innermost_module(*node), choice.reason});
  }
  Report own;
  inner().annotate(graph, annotations, own);
  for (const auto& [name, node] : left_float) annotations.erase(node);
  for (const ReportEntry& entry : own.entries())
    if (!left_float.contains(entry.node)) report.add(entry);
  for (const std::string& note : own.notes()) report.note(note);
}

}  // namespace

std::unique_ptr<ConfigurableQuantizer> with_settings(std::unique_ptr<Quantizer> quantizer) {
  OCTET_ASSERT(quantizer != nullptr, "null quantizer");
  return std::make_unique<SettledQuantizer>(std::move(quantizer));
}

}  // namespace octet
