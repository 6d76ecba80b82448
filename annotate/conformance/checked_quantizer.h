// Wraps a quantizer and checks each of its calls, for `octet conformance`.
#pragma once

#include "annotate/annotation/quantizer.h"

namespace octet {

using MakeQuantizer = std::function<std::unique_ptr<Quantizer>()>;

// Throws Error("conformance", CHECK, ...) from the call that fails a check:
//   edited     annotate() leaves the graph alone
//   legal      annotations and their edges are as check_legal (annotation_checks.h) wants
//   transform  a second transform_for_annotation changes nothing
//   repeated   annotating again gives the same, with this quantizer and with a new one
//   renamed    so does annotating a graph with other names
//   reordered  and one with independent nodes in another order
//   same       and the quantizer that `make_twin` makes; empty: none
class CheckedQuantizer : public Quantizer {
 public:
  CheckedQuantizer(MakeQuantizer make, MakeQuantizer make_twin, uint32_t seed)
      : make_(std::move(make)), make_twin_(std::move(make_twin)), seed_(seed), inner_(make_()) {}

  std::string name() const override { return inner_->name(); }
  void check_model(const Graph& model) const override { inner_->check_model(model); }
  const std::vector<OpaquePart>* opaque_parts() const override { return inner_->opaque_parts(); }
  void transform_for_annotation(Graph& graph) override;
  void annotate(Graph& graph, Annotations& annotations, Report& report) override;
  void validate(const Graph& graph, const Annotations& annotations) override {
    inner_->validate(graph, annotations);
  }
  void prepare_obs_or_fq_callback(const Graph& graph, ObserverMap& observers) override {
    inner_->prepare_obs_or_fq_callback(graph, observers);
  }

 private:
  MakeQuantizer make_, make_twin_;
  uint32_t seed_;
  std::unique_ptr<Quantizer> inner_;
};

}  // namespace octet
