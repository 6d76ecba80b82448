// Small rewrites that keep what a graph computes: remove dead code, inline bodies, fold padding
// into convolutions, and replace scalars by constants and literals.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// Whether a call may do more than compute results: it writes to an argument, asserts, has no
// results, draws random numbers, or is unknown.
bool has_side_effects(const Node& node);

enum class DeadInputs { kKeep, kRemove };

// Erases nodes without users and side effects, consumers first. kRemove also drops unused
// parameters, buffers and tensor constants with their data, and data that no input names. Returns
// the number of nodes and inputs removed.
int remove_dead(Graph& graph, DeadInputs inputs = DeadInputs::kKeep);

// Inlines the bodies of calls that do nothing but run them: higher_order.wrap_with_set_grad_enabled
// (from torch.no_grad() within a model), higher_order.wrap_with_autocast with autocast off, and
// higher_order.invoke_subgraph (from nested compile regions). Not inlined: autocast that is on, and
// calls with literal operands. Returns the number of calls inlined.
int inline_bodies(Graph& graph);

// Moves zero padding into the convolution that follows it:
//   conv2d(pad(x, [l, r, t, b]), w, b, padding=[p, q])  ->  conv2d(x, w, b, padding=[p + t, q + l])
//       when l == r and t == b
// Exact in float and in integers (zero is representable), and leaves one tensor less to observe.
// For conv1d/2d/3d with int padding, and aten.pad (constant mode) or aten.constant_pad_nd with
// value 0, not negative, symmetric, over spatial dimensions only, and read by that convolution
// only. Returns the number of folds.
int fold_pad(Graph& graph);

enum class ScalarOps { kFloatOnly, kAll };

// Replaces each number operand of aten.add.Tensor and aten.mul.Tensor (not of in-place variants) by
// a 0-dim f32 buffer `_tensor_constant_0`, .... kFloatOnly skips ops with a non-float result; kAll
// converts them too, as torchao does (it turns integer arithmetic into float). Returns the number
// of scalars converted.
int scalars_to_constants(Graph& graph, ScalarOps ops = ScalarOps::kFloatOnly);

// Replaces uses of `value` (a SymInt, SymFloat or SymBool) by a literal (int64_t, double or bool),
// wherever a literal is allowed. Lists of ints without symbols left become plain ones.
void put_number(Value& value, const Argument& number);

}  // namespace octet
