// Two programs and the shadows of one of them, compared op by op while batches run through both.
#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/compare/compare.h"
#include "annotate/compare/shadow_graph.h"
#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"

namespace octet {

enum class Shadows { kWithout, kWith };

class Comparer {
 public:
  // Programs and options must outlive it. Throws what find_twins() and add_float_outputs() throw.
  Comparer(const Graph& reference, const Graph& subject, const CompareOptions& options,
           Shadows shadows);
  Comparer(const Comparer&) = delete;
  Comparer& operator=(const Comparer&) = delete;

  // Throws what an op throws.
  void add(const std::vector<c10::IValue>& batch);
  // A row for each of the comparison's ops.
  const std::vector<ShadowRow>& rows() const { return shadow_.rows; }
  // Factors of a row by which the reference's values are larger; undefined: none.
  const at::Tensor& factors(size_t row) const { return factors_[row]; }
  Comparison take() &&;

 private:
  void compare_outputs_of(const std::vector<c10::IValue>& values);
  // Those of a kCompareTarget node.
  void take(const std::vector<c10::IValue>& arguments);

  const CompareOptions& options_;
  ShadowGraph shadow_;
  std::optional<Interpreter> interpreter_;
  size_t outputs_ = 0;
  Comparison comparison_;
  std::vector<double> metrics_ = {};  // sums
  double metric_of_outputs_ = 0;
  std::vector<at::Tensor> factors_ = {};  // undefined: none
};

}  // namespace octet
