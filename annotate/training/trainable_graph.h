// A Graph as a function that can be trained: its parameters and buffers are torch tensors outside
// of it, and it runs under autograd.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/set_training.h"

namespace octet {

class TrainableGraph {
 public:
  // Copies the program and its tensors; what is trained is the copy. `handlers` as those of
  // Interpreter, to be differentiable where gradients shall pass. Throws Error("train", ...) when
  // parameters overlap in memory without being the same tensor, and as Interpreter does for unknown
  // ops.
  explicit TrainableGraph(const Graph& graph, std::map<std::string, Handler> handlers = {});
  TrainableGraph(TrainableGraph&&) noexcept = default;

  // As Interpreter::run. Records gradients unless they are switched off (torch::NoGradGuard). What
  // the program writes into buffers is kept for the next run.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& user_inputs);

  // Each tensor once, however many names it has: what the export says requires gradients, in the
  // order of the program's inputs.
  std::vector<at::Tensor> parameters() const;
  // Parameters, buffers and constants by fqn; tied ones are one tensor.
  const std::map<std::string, at::Tensor>& tensors() const { return tensors_; }
  // Throws Error("train", ...) when the name is unknown.
  const at::Tensor& tensor(const std::string& fqn) const;

  // Dropout, batch norm and their like: how they run. `mode` is that of the program as it came
  // until it is set.
  void set_mode(Mode mode);
  // While frozen, batch norms use their running statistics and leave them, in training too.
  void freeze_batch_norm(bool is_frozen);

  // Puts the tensors as they are now into the constants of `graph`, which must have the names of
  // the program that this was made from.
  void store(Graph& graph) const;

 private:
  void add_tensors(const Graph& graph);
  void make_inputs();
  void apply_mode();

  std::unique_ptr<Graph> program_;
  std::map<std::string, Handler> handlers_;
  std::unique_ptr<Interpreter> interpreter_;  // of program_; made anew when that changes
  std::map<std::string, at::Tensor> tensors_;
  std::vector<std::string> order_;      // fqn of each input behind the caller's
  std::vector<std::string> mutations_;  // fqn of each output behind the caller's: its new value
  std::optional<Mode> mode_;            // absent: as the program came
  bool is_frozen_ = false;
  std::vector<Node*> frozen_;  // batch norms that would train
};

}  // namespace octet
