// Recurrent layers and cells: int8 weights, and an int8 input where the configuration has one.
// Shared by the quantizers; the peers leave these ops float.
//
//   aten.lstm  gru  rnn_tanh  rnn_relu      weights: the matrices in the list `params` (of input,
//              hidden state, projection; each layer and direction)
//   aten.lstm_cell  gru_cell  rnn_*_cell    weights: w_ih, w_hh
// Cells that have the same weights are the steps of one layer: their static inputs share a scale.
// A weight matrix is [gates * hidden, columns]: one scale per row. Biases, the hidden state (zeros
// at first, then made within the op) and the results stay float.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "annotate/rules/annotation_rule.h"

namespace octet {

// As for Node::is; for reports.
std::span<const std::string> recurrent_ops();

using NodeConfig = std::function<ConfigChoice(const Node&)>;

// Annotates each recurrent op that `config_of` gives a config; a config without weight spec,
// weights that are not constant and tensors that are not float32 leave it float, with the reason in
// state.refusals. Returns the number of ops annotated.
int annotate_recurrent(Graph& graph, const NodeConfig& config_of, Annotations& annotations,
                       RuleState& state);

}  // namespace octet
