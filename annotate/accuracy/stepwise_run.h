// Runs a graph a few nodes at a time over many batches at once: between two steps the graph's
// constants may change, and what the nodes gave so far is kept, so that each node runs once per
// batch.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/base/report.h"
#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"

namespace octet {

// Refused when the graph writes to its inputs or constants, whose state would be that of another
// step.
Verdict can_run_stepwise(const Graph& graph);
// The most bytes of tensors that are alive at a time while the batch runs, constants not counted.
// Observer nodes hand on what they get.
size_t peak_bytes(const Graph& graph, const std::vector<c10::IValue>& batch);

class StepwiseRun {
 public:
  // REQUIRES: can_run_stepwise(graph). Observer nodes hand on what they get, unless `handlers`
  // says otherwise.
  StepwiseRun(Graph graph, std::vector<std::vector<c10::IValue>> batches,
              std::map<std::string, Handler> handlers = {});
  ~StepwiseRun();

  Graph& graph() { return graph_; }  // data of constants may change; nodes and values must stay
  // Runs the nodes in front of `stop` that have not run yet, and `stop` itself when `inclusive`.
  // Nodes are those of graph().
  void run_to(const Node& stop, bool inclusive);
  // The program's outputs for one batch, from where the last run_to() stopped. Nothing of it is
  // kept: asked again, it runs again.
  std::vector<c10::IValue> run_rest(size_t batch);
  size_t batches() const { return batches_.size(); }
  // A value that `stop` of the last run_to() reads or, when it was inclusive, gives.
  c10::IValue value(size_t batch, const Value& value) const;

 private:
  struct Segment;
  enum class Outputs { kDrop, kKeep };
  Segment cut(size_t begin, size_t end, Outputs outputs) const;
  std::vector<c10::IValue> run(const Segment& segment, size_t batch) const;
  bool is_needed(const Value& value, size_t from) const;

  Graph graph_;
  std::vector<std::vector<c10::IValue>> batches_;
  std::map<std::string, Handler> handlers_;
  std::unique_ptr<Segment> rest_;  // from done_ to the end; null until asked for
  std::vector<Node*> nodes_;
  std::unordered_map<const Node*, size_t> position_;
  size_t done_ = 0;  // nodes that ran
  // by batch: results that later nodes read, and those of the last node
  std::vector<std::unordered_map<const Value*, c10::IValue>> alive_;
};

}  // namespace octet
