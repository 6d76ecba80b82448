// An observed graph run with the rounding that convert would put where its observer nodes are,
// for searches that change scales between runs.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/stepwise_run.h"
#include "annotate/observed/observed_graph.h"

namespace octet {

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
