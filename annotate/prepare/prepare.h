// Puts observation points into a graph where a Quantizer wants them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "annotate/annotation.h"
#include "annotate/observer.h"
#include "annotate/opaque.h"
#include "annotate/quantizer.h"
#include "annotate/sharing.h"
#include "core/graph.h"
#include "core/report.h"

namespace octet {

// An observation point: a node with argument "input" (a Value) and "group" (an int, index into ObservedGraph::observers) whose result is its input.
inline constexpr std::string_view kObserveTarget = "octet.observe.default";

// A graph with observation points, to be calibrated and then converted. Bodies of control flow have theirs within them; the groups count through
// all graphs, and so do the annotations.
struct ObservedGraph {
  Graph graph;
  std::vector<std::shared_ptr<Observer>> observers;  // by group; a group without observation point keeps its observer
  Annotations annotations;
  std::vector<Island> islands = {};  // the opaque parts, of the program and of its bodies
};

struct PrepareOptions {
  enum class FoldBn { kAuto, kOff };
  FoldBn fold_bn = FoldBn::kAuto;
  ImplicitSharing implicit_sharing = ImplicitSharing::kOn;
  bool compat_torchao = false;  // folds batch norms even where others see the convolution's output
};

// Folds batch norms, lets the quantizer transform, annotate and validate, finds the sharing groups, asks the quantizer about their observers
// (prepare_obs_or_fq_callback) and inserts the observation points; the same in
// each body of control flow that is quantized (annotate/bodies.h). Works around the quantizer's opaque parts (opaque.h). Without compat_torchao constants
// move into the bodies, until convert.
// Annotated edges of tensors that are not floating point are reported and left alone. Throws Error("prepare", ...) as check_spec,
// find_sharing_groups and make_observer do.
ObservedGraph prepare_pt2e(Graph graph, Quantizer& quantizer, Report& report, const PrepareOptions& options = {});

// The steps after annotation alone, for callers that annotated by other means.
ObservedGraph insert_observers(Graph graph, Annotations annotations, Report& report, const PrepareOptions& options = {});

// All observation points in graph order, then those of each body; and the group of one.
std::vector<Node*> observation_points(const Graph& graph);
int group_of(const Node& observation_point);
// The value behind a chain of observation points.
Value* observed_value(const Node& observation_point);

}  // namespace octet
