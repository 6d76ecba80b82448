// An observed graph run as the float program that it was: its observer nodes hand on what they
// get.
#pragma once

#include "annotate/graph/observe_op.h"
#include "core/interpreter/interpreter.h"

namespace octet {

inline Interpreter float_interpreter(const Graph& graph, NodeHook after_node = {}) {
  const Handler hand_on = [](const Node&, const std::vector<c10::IValue>& arguments) {
    return std::vector<c10::IValue>{arguments.at(0)};
  };
  return Interpreter(graph, {.after_node = std::move(after_node),
                             .handlers = {{std::string(kObserveTarget), hand_on}}});
}

}  // namespace octet
