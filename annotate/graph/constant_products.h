// Rewrites products with a constant matrix as linear layers:
//   matmul(x, t(w))                      ->  linear(x, w)
//   matmul(x, w)                         ->  linear(x, t(w))
//   einsum("ibh,hnd->ibnd", [x, w])      ->  unflatten(linear(x, reshape(permute(w))), n, d)
//   einsum("ibnd,hnd->ibh", [x, w])      ->  linear(flatten(x), reshape(permute(w)))
#pragma once

#include "core/graph/graph.h"

namespace octet {

// They then get what linear layers get: a scale per output channel, groups of weights, and all
// passes that know linear layers. The nodes keep their names and handles. Left unchanged: products
// of two constants; einsum with "...", with labels repeated in an operand or batched in both; and
// products whose input shape is unknown. Returns the number of products replaced.
int constant_products_to_linear(Graph& graph);

}  // namespace octet
