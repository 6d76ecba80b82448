// Switches a program between training and evaluation mode, and tells which mode it is in.
#pragma once

#include "core/graph/graph.h"

namespace octet {

enum class Mode { kTraining, kEvaluation };

// Sets the training flag of batch norms, instance norms, dropouts and recurrent ops, subgraphs
// included. Changes no other literal: eps, momentum and p stay the model's, while torchao's
// move_exported_model_to_eval resets them. Norms without running statistics have a single mode and
// keep their flag. Returns the number of flags changed.
int set_training(Graph& graph, Mode mode);

// Ops that would compute something else in evaluation mode, subgraphs included: norms that update
// running statistics, dropouts (also within attention and recurrent ops) and rrelu with their flag
// on. Norms without running statistics and dropouts with p = 0 do not count.
std::vector<const Node*> find_training_ops(const Graph& graph);

}  // namespace octet
