// Prepares programs with opaque parts: hides the parts from the quantizer, then handles them one by
// one.
#pragma once

#include "annotate/annotation/annotation.h"
#include "annotate/annotation/quantizer.h"
#include "annotate/annotation/sharing.h"
#include "annotate/graph/control_flow.h"
#include "annotate/graph/opaque_parts.h"
#include "core/base/report.h"

namespace octet {

class OpaquePrepare {
 public:
  struct Work {
    // folds batch norms and transforms
    std::function<void(Graph& graph, Quantizer& quantizer)> transform;
    // annotates and validates
    std::function<void(Graph& graph, Quantizer& quantizer, Annotations& annotations,
                       Report& report)>
        annotate;
    void operator()(Graph& graph, Quantizer& quantizer, Annotations& annotations,
                    Report& report) const {
      transform(graph, quantizer);
      annotate(graph, quantizer, annotations, report);
    }
  };

  // For the parts of `quantizer`, if any. All arguments must outlive this.
  OpaquePrepare(Quantizer& quantizer, Work work);

  // Throws Error as check_model of the quantizers does, including those of parts, and when a part
  // contradicts itself or its module is not in the program. An op may be absent, with a note,
  // because a backend's file serves many programs.
  void check(const Graph& program, Report& report) const;

  // Does the work on the program, then call it for each body of control flow. Parts are hidden:
  // their ops are named "octet.opaque.aten.relu.default" and claimed. Then each part with its own
  // quantizer gets the same work, with everything else hidden. Throws Error("quantizer", ...) when
  // a quantizer touches what is hidden from it, and for border specs that do not fit.
  void annotate(Graph& graph, Annotations& annotations, Report& report);
  void annotate_body(const Body& body, Annotations& annotations, Report& report);

  // The number of the island whose quantizer decides about an edge or value. 0: the outer
  // quantizer, which also decides about borders.
  int part_of(const EdgeOrNode& key) const;
  bool has_quantized_parts() const { return !part_of_node_.empty(); }
  Quantizer& quantizer_of(int part) const;

  std::vector<Island> take_islands() { return std::move(islands_); }

 private:
  struct Owner {
    size_t island = 0;
    Quantizer* quantizer = nullptr;  // null: float
  };
  std::vector<Island> find_and_swap(Graph& graph) const;
  void transform(Graph& graph, std::vector<Island>& islands) const;
  void annotate_outside(Graph& graph, const std::vector<Island>& islands, Annotations& annotations,
                        Report& report);
  void annotate_inside(Graph& graph, const Island& island, Annotations& annotations,
                       Report& report);
  void keep(std::vector<Island> islands);
  const Island* find_island(const Node* node) const;

  Quantizer& quantizer_;
  bool has_parts_;
  std::vector<OpaquePart> parts_;  // with the hooks registered for their classes
  Work work_;
  std::vector<Island> islands_;
  std::unordered_map<const Node*, size_t> island_of_node_;
  std::unordered_map<const Node*, int> part_of_node_;  // for islands with a quantizer
  std::unordered_map<EdgeOrNode, bool, EdgeOrNodeHash> border_;
  std::unordered_map<const Graph*, Owner> owner_of_body_;  // bodies of calls that are in an island
};

// The edges and values that the part's quantized_inputs and quantized_outputs refer to, with their
// specs. For an input these are the edges into all ops that read it, which share an observer.
// Throws Error("quantizer", name_of(part), ...) for an index that the island lacks, a tensor that
// is not float32, an output of an op with several results, and a SameAsInput whose input has no
// spec.
std::vector<std::pair<EdgeOrNode, SpecVariant>> border_specs(const OpaquePart& part,
                                                             const Island& island);

// Writes these specs into the annotations of the island's nodes.
void place_border_specs(const std::vector<std::pair<EdgeOrNode, SpecVariant>>& specs,
                        Annotations& annotations);

}  // namespace octet
