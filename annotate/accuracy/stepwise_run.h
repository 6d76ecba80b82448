// An observed graph run as the float program that it was: its observer nodes pass on what they get.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"

namespace octet {

inline std::map<std::string, Handler> pass_through_observers() {
  return {{std::string(kObserveTarget), [](const Node&, const std::vector<c10::IValue>& arguments) {
             return std::vector<c10::IValue>{arguments.at(0)};
           }}};
}

inline Interpreter float_interpreter(const Graph& graph, NodeHook after_node = {}) {
  return Interpreter(graph,
                     {.after_node = std::move(after_node), .handlers = pass_through_observers()});
}

// Runs a graph a few nodes at a time over many batches at once: between two steps the graph's
// constants may change, and what the nodes gave so far is kept, so that each node runs once per
// batch.

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

// An observed graph run with the rounding that convert would put where its observer nodes are,
// for searches that change scales between runs.

class FakeQuantRun {
 public:
  // REQUIRES: can_run_stepwise(observed.graph); observed is calibrated, outlives this and keeps its
  // nodes and constants. Points whose spec is not a static integer one with one scale a tensor or
  // channel hand on what they get, as do weights in bodies of control flow.
  FakeQuantRun(const ObservedGraph& observed, std::vector<std::vector<c10::IValue>> batches);
  FakeQuantRun(const FakeQuantRun&) = delete;
  FakeQuantRun& operator=(const FakeQuantRun&) = delete;

  size_t batches() const { return run_.batches(); }
  std::vector<c10::IValue> run(size_t batch) { return run_.run_rest(batch); }
  // What stands in front of the group's first point runs now, and no more: observers there must not
  // change any more.
  void settle_before(int group);
  // The group's scale and zero point are asked for anew.
  void refresh(int group) { rounding_.erase(group); }

 private:
  struct Rounding {
    double scale = 1;
    int64_t zero_point = 0;
  };
  at::Tensor round(const Node& point, const at::Tensor& x);
  at::Tensor round_constant(const Node& point, const at::Tensor& x);

  const ObservedGraph& observed_;
  // all of whose points observe constants
  std::unordered_set<int> constant_groups_;
  std::unordered_map<std::string, at::Tensor> rounded_constants_;  // by point
  std::unordered_map<int, Rounding> rounding_;
  StepwiseRun run_;
};

// Squared error of float outputs relative to their energy, summed over the outputs: 0 when equal.
// mask: of rows (padding_mask.h).
double relative_error(const std::vector<c10::IValue>& expected,
                      const std::vector<c10::IValue>& actual, const at::Tensor& mask = {});

}  // namespace octet
