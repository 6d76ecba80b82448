// Runs a Graph node by node over the LibTorch dispatcher. This is the numeric meaning of a graph:
// what PyTorch's own graph module computes.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// Called after each node, those of subgraphs included. results: one for each of node.outputs(), in
// that order.
using NodeHook = std::function<void(const Node& node, const std::vector<c10::IValue>& results)>;
// Runs a node. arguments: one for each of node.arguments(), in that order (literals as they stand:
// a DType is c10's number). Returns one for each of node.outputs().
using Handler = std::function<std::vector<c10::IValue>(const Node& node,
                                                       const std::vector<c10::IValue>& arguments)>;

struct InterpreterOptions {
  NodeHook after_node;
  std::map<std::string, Handler> handlers;  // by target; asked before the dispatcher
  // dtypes, shapes and literals of the user inputs against the graph's
  bool check_inputs = true;
  // for inputs that require them, unless the caller has switched them off
  bool record_gradients = false;
};

class Interpreter {
 public:
  // `graph` must outlive the Interpreter and stay unedited. Throws Error("run", ...) when a node's
  // op is unknown.
  explicit Interpreter(const Graph& graph, InterpreterOptions options = {});
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;

  // user_inputs: flattened, one for each kUserInput and kConstant of graph.inputs(), in that order;
  // None and literals included. Returns the user outputs, flattened. Values are freed after their
  // last use. Runs without autograd but for record_gradients.
  //
  // Writes behave as in torch.export's module: what the graph writes into a user input reaches the
  // caller's tensor; what it writes into a buffer, parameter or constant is kept for the next run,
  // in a copy that this Interpreter owns (the Graph's constants never change). Throws Error("run",
  // ...) for unfit inputs and for what an op itself refuses.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& user_inputs);

  // Forgets what earlier runs wrote into constants.
  void reset();
  // The present content of a parameter, buffer or constant: a view, not a copy. Throws Error for an
  // unknown fqn.
  at::Tensor constant(const std::string& fqn) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace octet
