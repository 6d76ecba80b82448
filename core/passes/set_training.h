// Switches a program between training and evaluation.
#pragma once

#include "core/graph/graph.h"

namespace octet {

enum class Mode { kTraining, kEvaluation };

// Sets the training flag of batch norms, instance norms, dropouts and recurrent ops, subgraphs
// included, and touches no other literal (eps, momentum and p stay what the model says; torchao's
// move_exported_model_to_eval resets them). Returns the number of flags changed.
int set_training(Graph& graph, Mode mode);

}  // namespace octet
