// Any quantizer, kept out of parts of the program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "annotate/graph/opaque_parts.h"

namespace octet {

// Does what `inner` does. prepare_pt2e hides the parts from it, those of `inner` included, and lets
// their own quantizers work inside.
class OpaqueQuantizer : public Quantizer {
 public:
  // `inner` is not null. Throws as check_opaque_part does.
  OpaqueQuantizer(std::unique_ptr<Quantizer> inner, std::vector<OpaquePart> parts);

  std::string name() const override { return inner_->name(); }
  // Throws Error("quantizer", ...) too for a part that covers nothing of the model, with the
  // closest names.
  void check_model(const Graph& model) const override;
  const std::vector<OpaquePart>* opaque_parts() const override { return &parts_; }
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

 private:
  std::unique_ptr<Quantizer> inner_;
  std::vector<OpaquePart> parts_;  // first its own, then those of inner_
};

}  // namespace octet
