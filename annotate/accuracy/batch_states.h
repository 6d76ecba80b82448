// Keeps the states of a program (buffers that it writes to, such as a decoder's cache) while its
// nodes run a few at a time over many batches: each batch begins with what the batch before left.
//
//   index_put_(%cache, ...)    becomes    %state = octet.batch_state(%cache)
//                                         index_put_(%state, ...)
#pragma once

#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "core/base/report.h"
#include "core/graph/graph.h"
#include "core/interpreter/interpreter.h"

namespace octet {

// Refused for writes to user inputs, and for states that the program reads before an op that a pass
// may stop at (an observer node, or an op with a weight) and writes after it: there the next batch
// would begin with half of the writes.
Verdict can_separate_states(const Graph& graph);

// Inserts a batch_state node before the first reader of each parameter, buffer or constant that the
// graph writes to. REQUIRES: can_separate_states(graph).
void separate_states(Graph& graph);

// What batch_state nodes return, during a run of batch 0, then 1, and so on.
class BatchStates {
 public:
  // Call before a part of the graph runs: batch 0 begins with the constants' own content.
  void begin(size_t batch);
  // To be added to the handlers of an Interpreter that this outlives.
  std::pair<std::string, Handler> handler();

 private:
  std::map<std::string, at::Tensor> last_;  // of the batch before, by node
};

}  // namespace octet
