// The interface of a backend's policy. A Quantizer decides; it edits the graph only in
// transform_for_annotation.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "annotate/annotation/annotation.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

struct OpaquePart;  // annotate/graph/opaque_parts.h

// Every annotated edge and value of one graph with its observer, in the order of
// SharingGroups::members. The same object at several places: they share it.
using ObserverMap = std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>;

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  virtual std::string name() const = 0;
  // Throws Error when the settings do not go with the program (a module that it lacks). Asked once,
  // before anything is rewritten; `model` holds its bodies.
  virtual void check_model(const Graph& /*model*/) const {}
  // Parts of the program that this quantizer keeps out of; null: none. prepare_pt2e hides them from
  // it and sees to them itself.
  virtual const std::vector<OpaquePart>* opaque_parts() const { return nullptr; }
  // Rewrites that make annotation possible (scalars to tensors, ...). Runs after batch norms were
  // folded.
  virtual void transform_for_annotation(Graph&) {}
  // Fills `annotations`. Each compute node that it declines goes to the report with a reason.
  virtual void annotate(Graph& graph, Annotations& annotations, Report& report) = 0;
  // Throws Error when the annotated graph is not what the backend can run.
  virtual void validate(const Graph&, const Annotations&) {}
  // Called with what prepare made of the annotations, once per graph and body, before observer
  // nodes come in: may put other observers into the map, let places share one, or reset a pointer,
  // which leaves that place unobserved. Derived observers keep the sources that they were made
  // with.
  virtual void prepare_obs_or_fq_callback(const Graph&, ObserverMap&) {}
};

}  // namespace octet
