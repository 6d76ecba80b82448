// Switches a program between training and evaluation, and tells which of the two it is.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace octet {

enum class Mode { kTraining, kEvaluation };

// Sets the training flag of batch norms, instance norms, dropouts and recurrent ops, subgraphs
// included, and touches no other literal (eps, momentum and p stay what the model says; torchao's
// move_exported_model_to_eval resets them). Norms without running statistics have no other mode and
// keep their flag. Returns the number of flags changed.
int set_training(Graph& graph, Mode mode);

// Ops that compute something else in evaluation, subgraphs included: norms that update running
// statistics, dropouts (those within attention and recurrent ops too) and rrelu with their flag on.
// Not among them: norms without running statistics, and dropouts with p = 0.
std::vector<const Node*> find_training_ops(const Graph& graph);

}  // namespace octet
