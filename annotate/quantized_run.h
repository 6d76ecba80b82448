// An observed graph run with the rounding that convert would put where its observation points are, for searches that change scales between runs.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/prepare.h"
#include "core/interpreter.h"

namespace octet {

class QuantizedRun {
 public:
  // REQUIRES: observed is calibrated; it must outlive this and keep its nodes and constants. Points whose spec is not a static integer one with one scale
  // a tensor or channel hand on what they get.
  explicit QuantizedRun(const ObservedGraph& observed);
  QuantizedRun(const QuantizedRun&) = delete;
  QuantizedRun& operator=(const QuantizedRun&) = delete;

  std::vector<c10::IValue> run(const std::vector<c10::IValue>& batch) { return interpreter_.run(batch); }
  // The group's scale and zero point are asked for anew before the next run.
  void refresh(int group) { rounding_.erase(group); }

 private:
  struct Rounding {
    double scale = 1;
    int64_t zero_point = 0;
  };
  at::Tensor round(const Node& point, const at::Tensor& x);
  at::Tensor round_constant(const Node& point, const at::Tensor& x);

  const ObservedGraph& observed_;
  std::unordered_set<const Value*> constants_;
  std::unordered_map<const Node*, at::Tensor> rounded_constants_;
  std::unordered_map<int, Rounding> rounding_;
  Interpreter interpreter_;
};

// Squared error of float outputs relative to their energy, summed over the outputs: 0 when equal.
double relative_error(const std::vector<c10::IValue>& expected, const std::vector<c10::IValue>& actual);

}  // namespace octet
