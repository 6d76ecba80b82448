// Claims ops, lets work, and takes the claims back.
#include "quantizers/common/with_settings.h"

#include <unordered_map>
#include <utility>

#include "annotate/graph/float_ops.h"
#include "core/base/error.h"
#include "quantizers/common/forwarding_quantizer.h"

namespace octet {
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
