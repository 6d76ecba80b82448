// Rewrites that make a graph simpler for later stages: dead code, bodies, padding and scalars
// (simplify.cpp), what does not depend on inputs (fold_input_free.cpp), unknown and complex ops
// (decompose.cpp, split_complex.cpp), half precision (widen_half.cpp).
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

enum class FoldFrom {
  // nodes that take no tensor (arange, ones, full, ...), and what is computed from them and
  // constants
  kNothing,
  // also what is computed from constants alone (standardized weights, transposed tables), unless it
  // is much larger than they are
  kConstants,
};

// Folds nodes that do not depend on inputs; values that other nodes read become constants. Not
// folded: quantize and dequantize ops (kConstants: dequantize ops whose real values, moved or not,
// others read), random numbers, and results that something writes to. Returns the number of nodes
// folded. Throws Error("run", ...) when an op refuses its arguments.
//
// symbols: null: results that are not tensors and symbolic shapes are not folded either. Otherwise
// they are computed (how many elements a mask selects, item() as a size), and `symbols` receives
// the values of their symbols, which metas elsewhere still name. Numbers become literals, and
// asserts that hold are removed.
int fold_input_free(Graph& graph, FoldFrom from = FoldFrom::kNothing,
                    std::map<std::string, int64_t>* symbols = nullptr);

// Whether an op of the program, bodies included, computes in bfloat16 or float16. Merely converting
// a tensor, such as a stored weight, does not count.
bool computes_in_half(const Graph& graph);

// Widens every bfloat16 and float16 tensor to float32: parameters, buffers and constants (exactly),
// results, and dtype arguments, in bodies too. The program's interface stays the same: half inputs
// and outputs are converted by `aten.to.dtype` at the border. Returns the number of values widened.
int widen_half(Graph& graph);

// The graph itself, or a widened copy when it computes in half precision.
class InFloat32 {
 public:
  explicit InFloat32(const Graph& graph);
  const Graph& graph() const { return copy_ ? *copy_ : *graph_; }

 private:
  const Graph* graph_;
  std::unique_ptr<Graph> copy_;
};

}  // namespace octet
