// Combines several quantizers; each annotates what the earlier ones left.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"

namespace octet {

// Transforms, annotates and validates with each quantizer in turn. No quantizer may change or
// remove an earlier one's annotations. The rule of each annotation names its quantizer: "embedding:
// embedding_bag".
class ComposableQuantizer : public Quantizer {
 public:
  // At least one, none null.
  explicit ComposableQuantizer(std::vector<std::unique_ptr<Quantizer>> quantizers);

  // The names in order: "embedding,xnnpack".
  std::string name() const override;
  void check_model(const Graph& model) const override;
  // The opaque parts of all quantizers: what one must leave out, all leave out.
  const std::vector<OpaquePart>* opaque_parts() const override {
    return opaque_.empty() ? nullptr : &opaque_;
  }
  void transform_for_annotation(Graph& graph) override;
  // An op that no quantizer takes gets one entry in the report with all reasons. Throws
  // Error("quantizer", "%node", ...), naming both quantizers, when one changes or removes the specs
  // of another.
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
  void validate(const Graph& graph, const Annotations& annotations) override;
  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override;

 private:
  std::vector<std::unique_ptr<Quantizer>> quantizers_;
  std::vector<OpaquePart> opaque_;
};

}  // namespace octet
