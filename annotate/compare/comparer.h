// Two programs and the shadows of one of them, compared op by op while batches run through both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
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

// The ops inside of bodies of control flow (cond, while_loop, scan, map): each body beside its twin
// as a program of its own.
//
//   accumulated   both programs run whole: the n-th call of a body in a batch here and there
//   isolated      the body's ops on the tensors that the reference's body has
//
// Both are summed over calls, iterations and batches.

// One for all bodies of two programs; a condition of a while_loop, which stays float, and bodies
// that do not match their twin are left out.
class BodyComparer {
 public:
  // The options must outlive it.
  BodyComparer(const Graph& reference, const Graph& subject, const CompareOptions& options,
               Shadows shadows);
  ~BodyComparer();

  // Keeps what the reference's bodies give in this batch. Throws what an op throws.
  void add(const std::vector<c10::IValue>& batch);
  // Named "call/op", in a cond "call/body/op": "scan/linear", "cond/true_graph_0/linear". Ops of
  // bodies that never ran have no data.
  std::vector<OpComparison> take() &&;
  // Those of the bodies, named likewise.
  std::vector<WeightComparison> weights() const;

 private:
  struct Pair;
  class Run;
  void find_pairs(const Graph& reference, const Graph& subject, const std::string& prefix,
                  const CompareOptions& options, Shadows shadows);

  std::unique_ptr<Graph> reference_, subject_;  // with the bodies' constants inside
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::unique_ptr<Run> reference_run_, subject_run_;
};

}  // namespace octet
