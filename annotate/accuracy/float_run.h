// An observed graph run as the float program that it was: its observer nodes pass on what they get.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "annotate/graph/observe_op.h"
#include "core/interpreter/interpreter.h"

namespace octet {

inline std::map<std::string, Handler> pass_through_observers() {
  return {{std::string(kObserveTarget), [](const Node&, const std::vector<c10::IValue>& arguments) {
             return std::vector<c10::IValue>{arguments.at(0)};
           }}};
}

inline Interpreter float_interpreter(const Graph& graph, NodeHook after_node = {}) {
  return Interpreter(graph,
                     {.after_node = std::move(after_node), .handlers = pass_through_observers()});
}

}  // namespace octet
