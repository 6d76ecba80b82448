// The interface of a backend's policy. A Quantizer decides; it edits the graph only in transform_for_annotation.
#pragma once

#include <memory>
#include <string>

#include "annotate/annotation.h"
#include "core/graph.h"
#include "core/report.h"

namespace octet {

class Quantizer {
 public:
  virtual ~Quantizer() = default;
  virtual std::string name() const = 0;
  // Throws Error when the settings do not go with the program (a module that it lacks). Asked once, before anything is rewritten; `model` holds its bodies.
  virtual void check_model(const Graph& /*model*/) const {}
  // Rewrites that make annotation possible (scalars to tensors, ...). Runs after batch norms were folded.
  virtual void transform_for_annotation(Graph&) {}
  // Fills `annotations`. Each compute node that it declines goes to the report with a reason.
  virtual void annotate(Graph& graph, Annotations& annotations, Report& report) = 0;
  // Throws Error when the annotated graph is not what the backend can run.
  virtual void validate(const Graph&, const Annotations&) {}
};

}  // namespace octet
