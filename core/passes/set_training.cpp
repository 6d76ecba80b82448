#include "core/passes/set_training.h"

#include <algorithm>
#include <array>

namespace octet {
namespace {

struct TrainingFlag {
  std::string_view op;
  std::string_view argument;
};

constexpr std::array<TrainingFlag, 10> kFlags = {
    {
     {"aten.batch_norm", "training"},
     {"aten.instance_norm", "use_input_stats"},
     {"aten.dropout", "train"},
     {"aten.feature_dropout", "train"},
     {"aten.alpha_dropout", "train"},
     {"aten.feature_alpha_dropout", "train"},
     {"aten.lstm", "train"},
     {"aten.gru", "train"},
     {"aten.rnn_tanh", "train"},
     {"aten.rnn_relu", "train"},
     }
};

}  // namespace

int set_training(Graph& graph, Mode mode) {
  const bool wanted = mode == Mode::kTraining;
  int changes = 0;
  for (Node* node : graph.nodes()) {
    for (const NamedArgument& argument : node->arguments())
      if (const Subgraph* subgraph = argument.value.find<Subgraph>())
        changes += set_training(*subgraph->graph, mode);
    const auto flag = std::find_if(kFlags.begin(), kFlags.end(),
                                   [&](const TrainingFlag& row) { return node->is(row.op); });
    if (flag == kFlags.end() || node->find_argument(flag->argument) == nullptr ||
        node->bool_or(flag->argument, wanted) == wanted)
      continue;
    // An instance norm without running statistics has no other mode.
    if (flag->op == "aten.instance_norm" && !wanted && node->find_input("running_mean") == nullptr)
      continue;
    node->set_argument(flag->argument, wanted);
    ++changes;
  }
  return changes;
}

}  // namespace octet
