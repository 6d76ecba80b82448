// Moves zero padding into the convolution that follows it:
//   conv2d(pad(x, [l, r, t, b]), w, b, padding=[p, q])  ->  conv2d(x, w, b, padding=[p + t, q + l])
//       when l == r and t == b
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Exact in float and in integers (the padded zeros are representable), and leaves one tensor less
// to observe. conv1d/2d/3d with int padding; aten.pad (constant mode) and aten.constant_pad_nd with
// value 0, not negative, symmetric, over spatial dimensions only, and seen by that convolution
// alone. Returns the number of folds.
int fold_pad(Graph& graph);

}  // namespace octet
