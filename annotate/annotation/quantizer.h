// The interface of quantizers: a Quantizer decides which tensors of a graph are quantized and how.
// It edits the graph only in transform_for_annotation().
#pragma once

#include <utility>

#include "annotate/annotation/annotation.h"
#include "core/base/report.h"
#include "core/graph/graph.h"

namespace octet {

struct OpaquePart;  // annotate/graph/opaque_parts.h

// Every annotated edge and value of a graph with its observer, in the order of
// SharingGroups::members. Places that share an observer have the same object.
using ObserverMap = std::vector<std::pair<EdgeOrNode, std::shared_ptr<Observer>>>;

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  virtual std::string name() const = 0;
  // Throws Error when the settings do not fit the program (a module that it lacks). Called once,
  // before anything is rewritten; `model` includes its bodies.
  virtual void check_model(const Graph& /*model*/) const {}
  // Parts of the program that are kept opaque; null: none. prepare_pt2e hides them from the
  // quantizer and handles them itself.
  virtual const std::vector<OpaquePart>* opaque_parts() const { return nullptr; }
  // Rewrites the graph so that it can be annotated (scalars to tensors, ...). Runs after batch
  // norms are folded.
  virtual void transform_for_annotation(Graph&) {}
  // Fills `annotations`. Reports each compute node that it declines, with a reason.
  virtual void annotate(Graph& graph, Annotations& annotations, Report& report) = 0;
  // Throws Error when the backend cannot run the annotated graph.
  virtual void validate(const Graph&, const Annotations&) {}
  // Called once per graph and body with the observers that prepare created, before observer nodes
  // are inserted. May replace observers, let places share one, or reset a pointer to leave a place
  // unobserved. Derived observers keep the sources that they were created with.
  virtual void prepare_obs_or_fq_callback(const Graph&, ObserverMap&) {}
};

}  // namespace octet
