// Compares two programs op by op while batches run through both; the implementation of compare.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "annotate/compare/compare.h"
#include "annotate/compare/shadow_graph.h"
#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"

namespace octet {

class Comparer {
 public:
  // Programs and options must outlive this. Throws what find_twins() and add_float_outputs() throw.
  Comparer(const Graph& reference, const Graph& subject, const CompareOptions& options);
  Comparer(const Comparer&) = delete;
  Comparer& operator=(const Comparer&) = delete;

  // Throws what an op throws.
  void add(const std::vector<c10::IValue>& batch);
  // One row per op of the comparison.
  const std::vector<ShadowRow>& rows() const { return shadow_.rows; }
  // Channel factors by which the reference's values of this row are larger; undefined: none.
  const at::Tensor& factors(size_t row) const { return factors_[row]; }
  Comparison take() &&;

 private:
  void compare_outputs_of(const std::vector<c10::IValue>& values);
  // Takes the arguments of a kCompareTarget node.
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

// Compares the ops inside of bodies of control flow (cond, while_loop, scan, map). Each body and
// its twin are compared like programs:
//
//   accumulated   both whole programs run; the n-th call of a body in a batch is compared with the
//                 n-th call of its twin
//   isolated      the body's ops on the tensors of the reference's body
//
// Both are summed over calls, iterations and batches. The condition of a while_loop, which stays
// float, and bodies that do not match their twin are left out.
class BodyComparer {
 public:
  // The options must outlive this.
  BodyComparer(const Graph& reference, const Graph& subject, const CompareOptions& options);
  ~BodyComparer();

  // Runs a batch. Throws what an op throws.
  void add(const std::vector<c10::IValue>& batch);
  // The ops, named "call/op", in a cond "call/body/op": "scan/linear", "cond/true_graph_0/linear".
  // Ops of bodies that never ran have no data.
  std::vector<OpComparison> take() &&;
  // The weights of the bodies, named in the same way.
  std::vector<WeightComparison> weights() const;

 private:
  struct Pair;
  class Run;
  void find_pairs(const Graph& reference, const Graph& subject, const std::string& prefix,
                  const CompareOptions& options);

  std::unique_ptr<Graph> reference_, subject_;  // with the bodies' constants inside
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::unique_ptr<Run> reference_run_, subject_run_;
};

}  // namespace octet
