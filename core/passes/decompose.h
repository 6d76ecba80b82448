// Replaces ops that later stages do not know: by the ops that they are composed of, and ops on
// complex tensors by the same ops on their real and imaginary parts.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Replaces each node whose target is not known by the ops that LibTorch's kernel for it calls, if
// all of these are known (composite_trace.h). Nodes with values of symbolic sizes, unknown shape or
// complex dtype are kept. Returns the number of nodes replaced.
int decompose(Graph& graph, const std::function<bool(const std::string& target)>& is_known);

// Rewrites ops that treat both parts alike, such as slice, reshape or sum, and products of two
// tensors:
//   y = slice(x)      ->  y = complex(slice(real(x)), slice(imag(x)))
//   y = einsum(a, b)  ->  y = complex(einsum(real(a), real(b)) - einsum(imag(a), imag(b)),
//                                     einsum(real(a), imag(b)) + einsum(imag(a), real(b)))
// Only complex64 is split. In-place ops are left. Returns the number of ops replaced.
int split_complex(Graph& graph);

}  // namespace octet
