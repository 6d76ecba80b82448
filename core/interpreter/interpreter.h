// Runs a Graph node by node with the LibTorch dispatcher. This defines what a graph computes: the
// same as PyTorch's graph module.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// Called after each node, including those of subgraphs. results: one per node.outputs(), in order.
using NodeHook = std::function<void(const Node& node, const std::vector<c10::IValue>& results)>;
// Runs a node. arguments: one per node.arguments(), in order, with literals unchanged (a DType is
// c10's number). Returns one value per node.outputs().
using Handler = std::function<std::vector<c10::IValue>(const Node& node,
                                                       const std::vector<c10::IValue>& arguments)>;

struct InterpreterOptions {
  NodeHook after_node;
  std::map<std::string, Handler> handlers;  // by target; take precedence over the dispatcher
  // check dtypes, shapes and literals of user inputs against the graph
  bool check_inputs = true;
  // for inputs that require them, unless gradients are disabled globally
  bool record_gradients = false;
};

class Interpreter {
 public:
  // `graph` must outlive the Interpreter and not be edited. Throws Error("run", ...) for unknown
  // ops.
  explicit Interpreter(const Graph& graph, InterpreterOptions options = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;

  // user_inputs: flattened, one per kUserInput and kConstant of graph.inputs(), in order, including
  // None and literals. Returns the user outputs, flattened. Values are freed after their last use.
  // Runs without autograd unless record_gradients is set.
  //
  // Writes behave as in torch.export's module: a write to a user input changes the caller's tensor;
  // a write to a buffer, parameter or constant is kept for the next run in a copy owned by this
  // Interpreter (the Graph's constants never change). Throws Error("run", ...) for inputs that do
  // not fit and for what an op refuses.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& user_inputs);

  // Reverts what earlier runs wrote to constants.
  void reset();
  // The current content of a parameter, buffer or constant: a view, not a copy. Throws Error for an
  // unknown fqn.
  at::Tensor constant(const std::string& fqn) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octet
