// Runs observed graphs for accuracy passes: as the float program, step by step over many batches,
// and with the rounding that convert will introduce.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/graph/qdq_nodes.h"
#include "annotate/observed/observed_graph.h"
#include "core/base/report.h"
#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"

namespace octet {

// Keeps the states of a program (buffers that it writes to, such as a decoder's cache) while its
// nodes run a few at a time over many batches: each batch begins with what the batch before left.
//
//   index_put_(%cache, ...)    becomes    %state = octet.batch_state(%cache)
//                                         index_put_(%state, ...)

// Refused for writes to user inputs, and for states that the program reads before an op that a pass
// may stop at (an observer node, or an op with a weight) and writes after it: there the next batch
// would begin with half of the writes.
Verdict can_separate_states(const Graph& graph);

// Inserts a batch_state node before the first reader of each parameter, buffer or constant that the
// graph writes to. REQUIRES: can_separate_states(graph).
void separate_states(Graph& graph);

// What batch_state nodes return, during a run of batch 0, then 1, and so on.
class BatchStates {
 public:
  // Call before a part of the graph runs: batch 0 begins with the constants' own content.
  void begin(size_t batch);
  // To be added to the handlers of an Interpreter that this outlives.
  std::pair<std::string, Handler> handler();

 private:
  std::map<std::string, at::Tensor> last_;  // of the batch before, by node
};

inline std::map<std::string, Handler> pass_through_observers() {
  return {{std::string(kObserveTarget), [](const Node&, const std::vector<c10::IValue>& arguments) {
             return std::vector<c10::IValue>{arguments.at(0)};
           }}};
}

inline Interpreter float_interpreter(const Graph& graph, NodeHook after_node = {}) {
  return Interpreter(graph,
                     {.after_node = std::move(after_node), .handlers = pass_through_observers()});
}

// Runs a graph a few nodes at a time over many batches at once. Between two steps the graph's
// constants may change, and intermediate results are kept, so each node runs once per batch.

// Refused when an output updates a buffer, and as can_separate_states() does.
Verdict can_run_stepwise(const Graph& graph);
// The most bytes that a StepwiseRun over `graph` keeps of each batch while it stops after each of
// `stops`. Observer nodes pass on their input.
size_t bytes_at(const std::unordered_set<const Node*>& stops, const Graph& graph,
                const std::vector<c10::IValue>& batch);

class StepwiseRun {
 public:
  // REQUIRES: can_run_stepwise(graph). Observer nodes pass on their input unless `handlers` says
  // otherwise.
  StepwiseRun(Graph graph, std::vector<std::vector<c10::IValue>> batches,
              std::map<std::string, Handler> handlers = {});
  ~StepwiseRun();

  Graph& graph() { return graph_; }  // data of constants may change; nodes and values must stay
  // Runs the nodes before `stop` that have not run yet, and `stop` itself when `inclusive`. `stop`
  // is a node of graph().
  void run_to(const Node& stop, bool inclusive);
  // The program's outputs for one batch, from where the last run_to() stopped. Nothing is kept: a
  // second call runs the nodes again. Call it for batch 0, 1, and so on: each begins with the
  // states that the one before left.
  std::vector<c10::IValue> run_rest(size_t batch);
  size_t batches() const { return batches_.size(); }
  // A value that the last `stop` reads or, when it was inclusive, produces.
  c10::IValue value(size_t batch, const Value& value) const;

 private:
  struct Segment;
  enum class Outputs { kDrop, kKeep };
  Segment cut(size_t begin, size_t end, Outputs outputs) const;
  // Which of the values share memory that nodes [begin, end) write to.
  std::unordered_set<const Value*> written_by(size_t begin, size_t end,
                                              const std::vector<const Value*>& values) const;
  std::vector<c10::IValue> run(const Segment& segment, size_t batch);
  bool is_needed(const Value& value, size_t from) const;

  Graph graph_;
  std::vector<std::vector<c10::IValue>> batches_;
  std::map<std::string, Handler> handlers_;
  BatchStates states_;
  std::unique_ptr<Segment> rest_;  // from done_ to the end; null until asked for
  std::vector<Node*> nodes_;
  std::unordered_map<const Node*, size_t> position_;
  size_t done_ = 0;                         // nodes that ran
  std::unordered_set<const Value*> fixed_;  // kept once for all batches
  // by batch: results that later nodes read, and those of the last node
  std::vector<std::unordered_map<const Value*, c10::IValue>> alive_;
};

// Runs an observed graph with the rounding that convert would put where its observer nodes are, for
// searches that change scales between runs.
class FakeQuantRun {
 public:
  // REQUIRES: can_run_stepwise(observed.graph); `observed` is calibrated, outlives this and keeps
  // its nodes and constants. Observer nodes pass on their input unless their spec is a static
  // integer one with one scale per tensor or channel; so do weights in bodies of control flow.
  FakeQuantRun(const ObservedGraph& observed, std::vector<std::vector<c10::IValue>> batches);
  FakeQuantRun(const FakeQuantRun&) = delete;
  FakeQuantRun& operator=(const FakeQuantRun&) = delete;

  size_t batches() const { return run_.batches(); }
  std::vector<c10::IValue> run(size_t batch) { return run_.run_rest(batch); }
  // Runs everything before the group's first observer node, once. The observers of those nodes must
  // not change any more.
  void settle_before(int group);
  // Call when the group's observer has changed.
  void refresh(int group) { rounding_.erase(group); }

 private:
  struct Rounding {
    double scale = 1;
    int64_t zero_point = 0;
  };
  at::Tensor round(const Node& point, const at::Tensor& x);
  at::Tensor round_constant(const Node& point, const at::Tensor& x);

  const ObservedGraph& observed_;
  // groups whose observer nodes all observe constants
  std::unordered_set<int> constant_groups_;
  std::unordered_map<std::string, at::Tensor> rounded_constants_;  // by point
  std::unordered_map<int, Rounding> rounding_;
  StepwiseRun run_;
};

// Squared error of float outputs relative to their energy, summed over the outputs; 0 when equal.
// mask: which rows count (padding_mask.h).
double relative_error(const std::vector<c10::IValue>& expected,
                      const std::vector<c10::IValue>& actual, const at::Tensor& mask = {});

}  // namespace octet
