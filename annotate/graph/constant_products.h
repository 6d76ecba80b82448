// Products with a constant matrix are linear layers, however the model writes them:
//   matmul(x, t(w))                      ->  linear(x, w)
//   matmul(x, w)                         ->  linear(x, t(w))
//   einsum("ibh,hnd->ibnd", [x, w])      ->  unflatten(linear(x, reshape(permute(w))), n, d)
//   einsum("ibnd,hnd->ibh", [x, w])      ->  linear(flatten(x), reshape(permute(w)))
#pragma once

#include "core/graph/graph.h"

namespace octet {

// So they get what linear layers get: a scale per output channel, groups of weights, and all passes
// that know linear layers. The nodes keep their names and handles. Left alone: products of two
// constants; einsum with "...", with labels that stand twice in an operand or are batches of both,
// and of inputs whose shapes are not known. Returns the number of products replaced.
int constant_products_to_linear(Graph& graph);

}  // namespace octet
