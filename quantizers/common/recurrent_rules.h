// Annotates recurrent layers and cells with int8 weights, and an int8 input if the configuration
// has one. Shared by the quantizers; torchao and ExecuTorch leave these ops float.
//
//   aten.lstm  gru  rnn_tanh  rnn_relu      weights: the matrices in the list `params` (of input,
//              hidden state, projection; each layer and direction)
//   aten.lstm_cell  gru_cell  rnn_*_cell    weights: w_ih, w_hh
// Cells with the same weights are steps of one layer, so their static inputs share a scale. A
// weight matrix is [gates * hidden, columns] and has one scale per row. Biases, the hidden state
// (initially zero, then computed inside the op) and the results stay float.
#pragma once

#include <functional>

#include "annotate/rules/annotation_rule.h"

namespace octet {

using NodeConfig = std::function<ConfigChoice(const Node&)>;

// Annotates each recurrent op for which `config_of` returns a config, and returns their number. A
// config without weight spec, weights that are not constant, and tensors that are not float32 leave
// an op float, with the reason in state.refusals.
int annotate_recurrent(Graph& graph, const NodeConfig& config_of, Annotations& annotations,
                       RuleState& state);

}  // namespace octet
