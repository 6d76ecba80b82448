// Several quantizers as one, each for what those before it left.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"

namespace octet {

// Transforms, annotates and validates with each quantizer in turn. None may change or remove what
// an earlier one annotated. Behind each annotation's rule stands which quantizer made it:
// "embedding: embedding_bag".
class ComposableQuantizer : public Quantizer {
 public:
  // At least one, none null.
  explicit ComposableQuantizer(std::vector<std::unique_ptr<Quantizer>> quantizers);

  // The names in order: "embedding,xnnpack".
  std::string name() const override;
  void check_model(const Graph& model) const override;
  // The parts of all quantizers: what one keeps out of, all do.
  const std::vector<OpaquePart>* opaque_parts() const override {
    return opaque_.empty() ? nullptr : &opaque_;
  }
  void transform_for_annotation(Graph& graph) override;
  // An op that no quantizer takes gets one entry in the report with the reasons of all. Throws
  // Error("quantizer", "%node", ...) with the names of both quantizers when one changes or removes
  // the specs of another.
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
  void validate(const Graph& graph, const Annotations& annotations) override;
  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override;

 private:
  std::vector<std::unique_ptr<Quantizer>> quantizers_;
  std::vector<OpaquePart> opaque_;
};

}  // namespace octet
