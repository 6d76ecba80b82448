// Folds a batch norm in inference mode into the convolution or linear before it, per output
// channel:
//   k = gamma / sqrt(var + eps)     w' = w * k     b' = (b - mean) * k + beta
#pragma once

#include "core/graph/graph.h"

namespace octet {

struct FoldOptions {
  // false: like torchao, which changes results: also folds when others see the convolution's
  // output; a weight or a convolution with several batch norms absorbs the first one and the others
  // vanish; weights are never copied.
  bool check_users = true;
  // folds only batch norms for which it returns true; empty: all
  std::function<bool(const Node& batch_norm)> only = {};
};

// Runs before prepare, so that the folded weight is observed. Applies to conv1d/2d/3d (.default,
// .padding), conv_transpose1d/2d/3d, and linear with an input of rank 2 at most, or of any rank
// when transpose, permute, view, reshape or flatten move its channels to dimension 1; followed by
// aten.batch_norm with training=False or aten._native_batch_norm_legit_no_training. Weight and
// statistics must be constants. A weight with other users is copied; otherwise it keeps its fqn. A
// new bias is named "<weight's fqn>_bias". Unused inputs are dropped. Returns the number of folds.
int fold_conv_bn(Graph& graph, const FoldOptions& options = {});

}  // namespace octet
