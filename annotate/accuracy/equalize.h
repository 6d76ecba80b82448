// Cross-layer equalization (Nagel et al. 2019): channels get factors so that the weights that make
// a channel and those that take it reach equally far. No data is needed, and the float program
// gives the same bits: the factors are powers of two.
//
//   conv2d -> relu -> conv2d       |row of the first| = |column of the second|, each within a
//       factor of sqrt(2)
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Works on folded float graphs and on observed ones that are not calibrated yet. Layer norms are
// left alone. Clamps (relu6, hardtanh) end a chain. Repeats until nothing changes (depthwise
// convolutions belong to two chains), at most 64 times. Returns the number of changes to spaces; 0
// when run again.
int equalize_layers(Graph& graph, const NodeFilter& applies = {});

}  // namespace octet
