// Claims ops, lets work, and takes the claims back.
#include "quantizers/common/with_settings.h"

#include <unordered_map>
#include <utility>

#include "annotate/graph/float_ops.h"
#include "core/base/error.h"

namespace octet {
namespace {

class SettledQuantizer : public ConfigurableQuantizer {
 public:
  explicit SettledQuantizer(std::unique_ptr<Quantizer> inner)
      : ConfigurableQuantizer(inner->name()), inner_(std::move(inner)) {}

  void check_model(const Graph& model) const override {
    ConfigurableQuantizer::check_model(model);
    inner_->check_model(model);
  }
  const std::vector<OpaquePart>* opaque_parts() const override { return inner_->opaque_parts(); }
  void transform_for_annotation(Graph& graph) override { inner_->transform_for_annotation(graph); }
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
  void validate(const Graph& graph, const Annotations& annotations) override {
    inner_->validate(graph, annotations);
  }
  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override {
    inner_->prepare_obs_or_fq_callback(graph, observers);
  }

 private:
  std::unique_ptr<Quantizer> inner_;
};

void SettledQuantizer::annotate(Graph& graph, Annotations& annotations, Report& report) {
  std::unordered_map<std::string, const Node*> left_float;
  for (const Node* node : graph.nodes()) {
    if (annotations.find(node)) continue;  // another quantizer's
    const ConfigTable::Choice choice = config_of(*node);
    if (choice.config) continue;
    annotations[node].rule = choice.reason;
    left_float.emplace(node->name(), node);
    if (computes_on_floats(*node))
      report.add(
          {"annotate", node->name(), node->target(), innermost_module(*node), choice.reason});
  }
  Report own;
  inner_->annotate(graph, annotations, own);
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
