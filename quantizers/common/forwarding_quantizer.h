// A quantizer that forwards to another one; subclasses override what differs.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "annotate/annotation/quantizer.h"
#include "core/base/error.h"

namespace octet {

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
