#include "core/passes/set_training.h"

#include <algorithm>

namespace octet {
namespace {

struct TrainingFlag {
  std::string_view op;
  std::string_view argument;
  // argument without which the flag has no effect: a tensor, or a probability other than 0; empty:
  // none
  std::string_view statistics = {};
  std::string_view probability = {};
  bool can_be_set = true;
};

constexpr std::string_view kMean = "running_mean";

constexpr std::array<TrainingFlag, 15> kFlags = {{
    {"aten.batch_norm", "training", kMean},
    {"aten.instance_norm", "use_input_stats", kMean},
    {"aten.dropout", "train", {}, "p"},
    {"aten.feature_dropout", "train", {}, "p"},
    {"aten.alpha_dropout", "train", {}, "p"},
    {"aten.feature_alpha_dropout", "train", {}, "p"},
    {"aten.lstm", "train", {}, "dropout"},
    {"aten.gru", "train", {}, "dropout"},
    {"aten.rnn_tanh", "train", {}, "dropout"},
    {"aten.rnn_relu", "train", {}, "dropout"},
    // in decomposed programs, whose backward ops torch chose by the mode
    {"aten.native_batch_norm", "training", kMean, {}, false},
    {"aten._native_batch_norm_legit", "training", kMean, {}, false},
    {"aten._native_batch_norm_legit_functional", "training", kMean, {}, false},
    {"aten.native_dropout", "train", {}, "p", false},
    {"aten.rrelu", "training", {}, {}, false},
}};

// Ops that only occur in training.
constexpr std::array<std::string_view, 2> kTrainingOps = {
    "aten._batch_norm_with_update", "aten._batch_norm_with_update_functional"};

const TrainingFlag* find_flag(const Node& node) {
  const auto flag =
      std::ranges::find_if(kFlags, [&](const TrainingFlag& row) { return node.is(row.op); });
  return flag == kFlags.end() ? nullptr : &*flag;
}

// Whether the op has statistics to use instead of the batch's.
bool has_other_mode(const Node& node, const TrainingFlag& flag) {
  return flag.statistics.empty() || node.find_input(flag.statistics) != nullptr;
}

bool is_training_op(const Node& node) {
  if (std::ranges::any_of(kTrainingOps, [&](std::string_view op) { return node.is(op); }))
    return true;
  if (node.is("aten.scaled_dot_product_attention")) return node.float_or("dropout_p", 0) > 0;
  const TrainingFlag* flag = find_flag(node);
  if (flag == nullptr || !node.bool_or(flag->argument, false) || !has_other_mode(node, *flag))
    return false;
  return flag->probability.empty() || node.float_or(flag->probability, 0) > 0;
}

void add_training_ops(const Graph& graph, std::vector<const Node*>& ops) {
  for (const Node* node : graph.nodes()) {
    if (is_training_op(*node)) ops.push_back(node);
    for (const NamedArgument& argument : node->arguments())
      if (const Subgraph* subgraph = argument.value.find<Subgraph>())
        add_training_ops(*subgraph->graph, ops);
  }
}

}  // namespace

int set_training(Graph& graph, Mode mode) {
  const bool wanted = mode == Mode::kTraining;
  int changes = 0;
  for (Node* node : graph.nodes()) {
    for (const NamedArgument& argument : node->arguments())
      if (const Subgraph* subgraph = argument.value.find<Subgraph>())
        changes += set_training(*subgraph->graph, mode);
    const TrainingFlag* flag = find_flag(*node);
    if (flag == nullptr || !flag->can_be_set || node->find_argument(flag->argument) == nullptr ||
        node->bool_or(flag->argument, wanted) == wanted)
      continue;
    if (!wanted && !has_other_mode(*node, *flag)) continue;
    node->set_argument(flag->argument, wanted);
    ++changes;
  }
  return changes;
}

std::vector<const Node*> find_training_ops(const Graph& graph) {
  std::vector<const Node*> ops;
  add_training_ops(graph, ops);
  return ops;
}

}  // namespace octet
