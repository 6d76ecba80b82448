// What a backend runs: tensors and ops in execution order, cut into segments. Standard types only:
// the runtime loads and runs a Program without LibTorch.
//
// Meaning of an op: read each integer input as real = scale * (q - zero_point), compute in real
// numbers, apply the post-ops, and write each integer output as q = clamp(round_half_even(real /
// scale) + zero_point, range of its dtype). A backend may fuse and use integer arithmetic; it stays
// within one output step of that. backends/reference is that meaning, spelled out. Integers without
// scale and bools are themselves; ops of nothing but them compute in 64 bits, which wrap.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/tensor.h"
#include "lowering/program/size_expr.h"

namespace octet {

// real = scale * (q - zero_point). One entry, or one per slice along `axis`.
struct TensorQParams {
  std::vector<float> scale;
  std::vector<int32_t> zero_point;
  int axis = -1;  // -1: per tensor
  bool operator==(const TensorQParams&) const = default;
  bool is_per_tensor() const { return axis < 0; }
};

// How a float constant stands in the artifact when it came from a dequantize: its elements as
// integers, with one scale and zero point for each block of them, real = (value - zero_point) *
// scale in float; or, when it came from a cast, as float16. Nothing holds its floats: who needs
// them asks constant_data.
struct StoredConstant {
  Tensor values;  // integers of up to 16 bits or float16, of the constant's shape
  // f32; shape: how many blocks each dimension is cut into, which divides its size; undefined:
  // values are float16
  Tensor scale;
  Tensor zero_point;  // f32, as `scale`; undefined: 0
  // all values in [-8, 7] (signed) or [0, 15]: two in a byte in the file
  bool fits_nibbles() const;
};

struct ProgramTensor {
  enum class Role { kInput, kOutput, kConstant, kIntermediate, kState };
  std::string name;  // of the Value it came from; unique
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;            // logical, as in the graph (NCHW)
  std::optional<TensorQParams> qparams;  // of integer tensors that stand for reals
  // an output that is also an input has kInput; Program::outputs decides
  Role role = Role::kIntermediate;
  // of constants: contiguous; undefined where `stored` is given
  Tensor data;
  // of f32 constants that the file holds as integers or float16
  std::optional<StoredConstant> stored = std::nullopt;
  // the shape as formulas of Program::symbols; empty where it depends on none
  std::vector<SizeExpr> sizes = {};
  int64_t numel() const { return product(shape); }
  bool is_constant() const { return role == Role::kConstant; }
};

class Attribute : public std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                                      std::vector<double>> {
 public:
  using variant::variant;
  using variant::operator=;
  Attribute() = default;
  // Copies the value first: where that throws within a std::variant of these types, libstdc++ 12
  // destroys a value that is not there (its bug 112591).
  Attribute(const Attribute& other)
      : variant(std::visit([](auto value) { return variant(std::move(value)); }, other.base())) {}
  Attribute(Attribute&&) noexcept = default;
  Attribute& operator=(const Attribute& other) { return *this = Attribute(other); }
  Attribute& operator=(Attribute&&) noexcept = default;
  ~Attribute() = default;

 private:
  const variant& base() const { return *this; }
};
using Attributes = std::map<std::string, Attribute, std::less<>>;

// The ops of a Program. Inputs by position; -1 where an optional one is absent. `stride`,
// `padding`, `dilation`, `kernel_size`: one entry per spatial dimension. Ops marked (p) take
// post-ops: attributes "post_min"/"post_max" (double, real units; a missing one is unbounded): the
// clamp that relu, relu6, hardtanh and clamp become, applied before the output is quantized.
//
//   conv            (p) x [N,C,spatial], w [O,C/groups,spatial], bias? [O] (f32 real units, or i32
//                   with scale x*w and zero point 0)
//                       stride, padding, padding_end (default: padding), dilation, groups; w per
//                           tensor or per channel (axis 0)
//   conv_transpose  (p) x, w [C,O/groups,spatial], bias?; stride, padding, output_padding,
//                   dilation, groups
//   linear          (p) x [..., in], w [out, in], bias? [out]
//   matmul          (p) a [..., M, K], b [..., K, N]
//   add, sub, mul   (p) a, b (broadcast); add and sub: alpha (double, default 1)
//                   div, minimum, maximum  (p) a, b (broadcast)
//   binary              a, b (broadcast); fn: eq, ne, lt, le, gt, ge, logical_and, logical_or,
//                   logical_xor (-> bool); bitwise_and, bitwise_or, bitwise_xor, left_shift,
//                   right_shift (integers, bools); pow, remainder (the divisor's sign), fmod,
//                   div_floor, div_trunc, atan2
//   max_pool            x -> y, indices? (int64, flat in the plane); kernel_size, stride, padding,
//                       dilation, ceil_mode
//   avg_pool        (p) x; kernel_size, stride, padding, ceil_mode, count_include_pad,
//                   divisor_override (int, 0: none)
//   adaptive_avg_pool (p) x; output_size
//   adaptive_max_pool   x -> y, indices? (int64, flat in the plane); output_size
//   im2col              x [N,C,H,W] -> [N,C*kernel,windows]; kernel_size, stride, padding, dilation
//   col2im              x [N,C*kernel,windows] -> [N,C,H,W]: sums of what meets; output_size,
//                       kernel_size, stride, padding, dilation; both also without N
//   mean            (p) x; dims, keepdim
//   reduce          (p) x; fn: sum, max, min, prod, any, all (-> bool); dims (default: all),
//                   keepdim
//   arg_reduce          x -> int64; fn: argmax, argmin; dim (default: the flattened x), keepdim;
//                   the first of equals, of NaNs if there are any
//   cumulative          x -> y, indices? (int64; of max and min); fn: sum, prod, max, min,
//                   logsumexp; dim (default: -1)
//   sort, topk          x -> values, indices (int64); stable, NaN is the greatest; dim
//                       (default: -1); sort: descending; topk: k, largest (default: true)
//   clamp               x; min?, max? (doubles)       (relu: min = 0)
//   unary               x; fn: sigmoid, tanh, hardswish, hardsigmoid, silu, gelu, gelu_tanh,
//                       leaky_relu(alpha), elu(alpha), selu, celu(alpha), softplus(alpha,
//                           threshold: default 20), softsign, mish, log_sigmoid, exp, exp2, expm1,
//                           log, log2, log10, log1p, erf, erfc, sin, cos, tan, asin, acos, atan,
//                           sinh, cosh, asinh, acosh, atanh, neg, abs, sign, square, reciprocal,
//                           sqrt, rsqrt, pow(alpha), ceil, floor, round (half to even), trunc
//                       bitwise_not (integers, bools)
//                       logical_not, isnan, isinf, isfinite (-> bool)
//   prelu               x, weight [C] or [1]      where  condition (bool), a, b (broadcast)
//   softmax, log_softmax  x; dim (default: -1); softmax: masked (a line of nothing but -inf gives
//                   zeros, as in attention)
//   layer_norm          x, weight?, bias?; normalized_dims (int, how many trailing), eps
//   rms_norm            x, weight?; normalized_dims, eps: x / sqrt(mean(x^2) + eps) * weight
//   rotary              x, cosine, sine (broadcast to x): x * cosine + (-second half of x, first
//                   half) * sine, by halves of the last dimension
//   batch_norm          x, mean [C], var [C], weight?, bias?; eps
//   group_norm          x [N,C,...], weight? [C], bias? [C]; groups, eps
//   recurrent           p [T,N,G*H] (the input's part of the gates, with its bias), r [G*H,P],
//                       bias? [G*H], h0 [N,P], c0? [N,H] (lstm), projection? [P,H] (lstm; without
//                       it P = H)
//                       -> y [T,N,P] (the hidden state after each step), c [N,H] (lstm: the last
//                           cell state); reverse: the last step comes first; the hidden state is
//                           the cell's result times the transposed projection
//                       cell lstm: rows of r are input, forget, cell, output gate
//                           tanh, relu: G = 1
//                            gru: reset r, update z, new n = tanh(p_n + r * (r_n h + bias_n)); h' =
//                                (1 - z) * n + z * h
//   quantize            f32 -> integer; quant_min, quant_max (ints) when narrower than the dtype
//                       dequantize  integer -> f32      requantize  integer -> integer
//   reshape             x (output shape says it)      permute  x; dims      cat  inputs...; dim
//                       slice  x; dim, start, step
//   expand              x (broadcast to output shape)  pad  x; pads [lo, hi per dim, first dim
//                       first], value (double)
//   upsample            x [N,C,spatial]; mode (nearest, nearest_exact; linear, bilinear, trilinear
//                       by the number of dimensions; bicubic; antialiased: bilinear_aa,
//                       bicubic_aa), align_corners, scales [per spatial dimension: input step per
//                       output pixel]
//   grid_sample         x [N,C,spatial], grid [N,out,2 or 3]; mode (bilinear, nearest, bicubic),
//                       padding_mode (zeros, border, reflection), align_corners
//   embedding           weight [V, D], indices
//   embedding_bag       weight [V, D], indices, offsets?, per_sample_weights? (of sums) ->
//                       [bags, D]; mode (sum, mean, max; default: sum), padding_idx (default: -1,
//                       none), include_last_offset; without offsets each row of indices is a bag
//   gather              x, index (of x's rank, the output's shape); dim (default: 0)
//   scatter             x, index, src (of x's rank, or 0-dim: one value for all); dim (default: 0),
//                       reduce (none, sum, prod, amax, amin, mean), include_self (default: true)
//   index               x, index?... (one per leading dimension of x, absent where that is taken
//                       whole; broadcast together; where they are not adjacent, their dimensions
//                       are the result's first)
//   index_put           x, values (broadcast to the result of `index`), index?...; accumulate
//   flip                x; dims
//                       index tensors are int64 or int32; those of index and index_put may be
//                           negative: from the end (index: unless from_end is false)
//   size                -> i64 without dimensions; value (int, mostly a formula of symbols)
//   cast                between real dtypes    copy  x
//                       custom  tensors -> tensors; custom_op (its name) and the op's arguments:
//                       custom_kernel.h
//   cond                predicate (one bool), operands... -> what the first of two bodies gives for
//                       true, the second for false; bodies: positions in Program::bodies, each of
//                       which takes the operands
//   while_loop          carried..., operands... -> carried...; bodies [condition, body], each of
//                       which takes all inputs: the body gives the next carried values while the
//                       condition gives true (one bool)
//   scan                carried..., rows..., operands... -> carried..., stacked...; bodies [one]:
//                       for each row along dimension 0 of `rows` it takes carried values, rows and
//                       operands, and gives the next carried values and a row of each stacked
//                       tensor; carried, rows (ints, how many)
//   fake_quantize_dynamic  f32 -> f32: each block quantized to [quant_min, quant_max] and
//                          dequantized with scale and zero point of its own range
//                       blocks [how many per dimension] (default: one block); eps: least scale;
//                           mapping:
//                       asymmetric          [min(x, 0), max(x, 0)] onto the range
//                       symmetric           scale = max |x| / half of the range, zero point
//                           "zero_point" (int)
//                       symmetric_unclipped the larger of min / quant_min and max / quant_max;
//                           "zero_point"
//                       least_error         asymmetric, zero point from the end of the range that
//                           it represents worse; added before rounding
//   nonzero             x -> positions [elements of x, dimensions of x] (int64), count (int64): the
//                       first `count` rows say where x is not 0, in order; 0 in the others
//   rest                counts..., rows..., operands... -> what one body gives for the first
//                       `count` rows of each of `rows` and for the operands: what stands behind a
//                       size that only the run decides. counts (int, how many, i64 each); bodies
//                       [one], whose symbols the program lacks where rows have them as their
//                       number. An output with such a size has the memory of the greatest
struct ProgramOp {
  std::string kind;
  // of the graph node that it came from (the computing one when several were fused)
  std::string name;
  std::vector<int> inputs;  // tensor indices, -1: absent
  std::vector<int> outputs;
  Attributes attributes;
  // formulas of the attributes (an int, ints) that depend on Program::symbols
  std::map<std::string, std::vector<SizeExpr>> sizes;
  // names of every graph node folded into it, for --explain
  std::vector<std::string> sources;
  std::string module;  // innermost module path, may be empty
  // multiply-accumulates per run, 0 when the op has none
  int64_t macs = 0;

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] >= 0; }

  // An attribute of one of the types of Attribute, null when there is none. This and what follows
  // throw Error when it is of another type, which only a damaged file can have.
  template <typename T>
  const T* find(std::string_view key) const;
  bool flag(std::string_view key, bool fallback = false) const;
  int64_t integer(std::string_view key, int64_t fallback) const;
  double real(std::string_view key, double fallback) const;  // integers count as reals
  std::optional<double> find_real(std::string_view key) const;
  std::string text(std::string_view key, std::string_view fallback) const;
  std::vector<int64_t> integers(std::string_view key, std::vector<int64_t> fallback = {}) const;
  std::vector<double> reals(std::string_view key, std::vector<double> fallback = {}) const;
};

// A run of ops on one backend, or one op of control flow ("control"), which the session runs.
// Segments execute in order; what flows between them are plain row-major tensors.
struct Segment {
  std::string backend;
  std::vector<int> ops;      // indices into Program::ops, in execution order
  std::vector<int> inputs;   // tensors read that are neither constants nor made here
  std::vector<int> outputs;  // tensors made here that later segments or the caller read
};

// A value that lives from run to run, as a buffer does that the exported program writes (a cache,
// a counter, running statistics). Of fixed sizes.
struct ProgramState {
  std::string name;  // of the buffer, with its path in the module: "layers.0.cache.k"
  // what the ops read: a tensor of role kState, which none of them makes
  int value = -1;
  // whose elements the state has after the run: any tensor of the same dtype and shape
  int next = -1;
  // a constant of the same dtype and shape: the value of the first run; -1: zeros
  int start = -1;
};

// A size that the inputs of a run decide. All shapes and attributes of a Program stand at the
// hints; lowering/program/specialize.h gives other ones.
struct ShapeSymbol {
  std::string name;  // as torch.export named it: "s77"
  int64_t min = 0;
  int64_t max = 0;
  int64_t hint = 0;  // in [min, max]: the size of the exported example
  bool operator==(const ShapeSymbol&) const = default;
};

struct Program {
  std::string backend;                          // it was lowered for
  std::map<std::string, std::string> versions;  // "octet", "onednn", "xnnpack" at lowering time
  std::vector<ProgramTensor> tensors;
  std::vector<ProgramOp> ops;
  std::vector<Segment> segments;
  // tensor indices, one per flattened user input; -1 for one that is not a tensor or is unused
  std::vector<int> inputs;
  // tensor indices in the order of the flattened outputs; may repeat
  std::vector<int> outputs;
  // What ops of control flow run (lowering/program/control.h): programs on the same backends, with
  // inputs in the order of the op's; -1 where one is not read.
  std::vector<Program> bodies;
  // what a session keeps from run to run; empty: every run is the same
  std::vector<ProgramState> states;
  // each decided by the shape of an input; empty: every shape is fixed
  std::vector<ShapeSymbol> symbols;
  std::map<std::string, std::string> reasons;  // op name -> why it does not run on `backend`
  // The file that it was read from, as the reader compared it with its checksum: constants are
  // views of its bytes. Empty for a program from elsewhere.
  std::string checksum;
  std::shared_ptr<const Storage> file;  // null when the bytes were not compared

  // By index, which must be one of `tensors` or `ops`: not -1, the absent input.
  ProgramTensor& tensor(int index) { return tensors[static_cast<size_t>(index)]; }
  const ProgramTensor& tensor(int index) const { return tensors[static_cast<size_t>(index)]; }
  ProgramOp& op(int index) { return ops[static_cast<size_t>(index)]; }
  const ProgramOp& op(int index) const { return ops[static_cast<size_t>(index)]; }
  // What is there before the first op: the inputs, then the states' values.
  std::vector<int> given() const;
  // What is wanted behind the last op: the outputs, then what the states become.
  std::vector<int> results() const;
  // The tensor at a position of an op's inputs, where has_input(i), or of its outputs.
  const ProgramTensor& input(const ProgramOp& op, size_t i) const { return tensor(op.inputs[i]); }
  const ProgramTensor& output(const ProgramOp& op, size_t i = 0) const {
    return tensor(op.outputs[i]);
  }
};

// Ops, tensors and segments in a readable form, one line an op:
//   onednn  conv2d_1: u8[1,16,56,56] = conv(x u8[1,3,112,112], w i8[16,3,3,3] per-channel, b)
//           stride=[2,2] post_min=0 post_max=6
std::string to_text(const Program& program);

// Throws InternalError when indices, shapes or the order of definitions are inconsistent, a scale
// is not positive and finite, or an op has an attribute that its kind lacks. depth: how many
// programs contain this one as a body.
void verify(const Program& program, size_t depth = 0);

}  // namespace octet
