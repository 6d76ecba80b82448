// A Program lists the tensors and ops that backends run, in execution order and divided into
// segments. It uses only standard types: the runtime loads and runs a Program without LibTorch.
//
// An op reads each integer input as real = scale * (q - zero_point), computes in real numbers,
// applies the post-ops, and writes each integer output as q = clamp(round_half_even(real / scale) +
// zero_point, range of its dtype). A backend may fuse ops and use integer arithmetic if the result
// differs by at most one output step. backends/reference implements this definition. Integers
// without a scale and bools are plain numbers; ops on such inputs alone compute in 64 bits, which
// wrap.
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
#include "lowering/program/op_contract.h"
#include "lowering/program/size_expr.h"

namespace octet {

// real = scale * (q - zero_point). One entry, or one per slice along `axis`.
struct TensorQParams {
  std::vector<float> scale;
  std::vector<int32_t> zero_point;
  int axis = -1;  // -1: per tensor
  bool operator==(const TensorQParams&) const = default;
  bool is_per_tensor() const { return axis < 0; }
  // Whether real = q.
  bool is_identity() const { return *this == TensorQParams{{1}, {0}}; }
};

// The compact form of a float constant. A constant from a dequantize is stored as integers with one
// scale and zero point for each block, real = (value - zero_point) * scale in float; a constant
// from a cast is stored as float16. constant_data() computes the floats.
struct StoredConstant {
  // Integers of up to 16 bits or float16, of the constant's shape. Has a dtype and a shape only if
  // `packed` is defined.
  Tensor values;
  // f32, or as a file has them: float16, bfloat16 or integers of 8 bits (narrowed). Its shape is
  // the number of blocks along each dimension, which divides the dimension's size; undefined if the
  // values are float16
  Tensor scale;
  Tensor zero_point;  // as `scale`; undefined: 0
  // Values of `packed_bits` bits (4, 3 or 2) as a file has them (pack_bits), so that a loaded
  // program takes no more memory than its file.
  Tensor packed = {};
  int packed_bits = 0;
  Tensor integers() const;     // `values`, or a new tensor with the unpacked ones
  Tensor scales() const;       // `scale` in f32, contiguous
  Tensor zero_points() const;  // likewise; undefined if `zero_point` is
  // The fewest bits of 2, 3 and 4 that hold all values, or those of the dtype.
  int bits() const;
};

struct ProgramTensor {
  enum class Role { kInput, kOutput, kConstant, kIntermediate, kState };
  std::string name;  // name of the graph's Value; unique
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;            // logical, as in the graph (NCHW)
  std::optional<TensorQParams> qparams;  // for quantized tensors
  // An output that is also an input has kInput; Program::outputs lists the outputs.
  Role role = Role::kIntermediate;
  // for constants: contiguous; undefined if `stored` is set
  Tensor data;
  // for f32 constants that the file stores as integers or float16
  std::optional<StoredConstant> stored = std::nullopt;
  // the shape as formulas of Program::symbols; empty where it depends on none
  std::vector<SizeExpr> sizes = {};
  int64_t numel() const { return product(shape); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * size_of(dtype); }
  bool is_constant() const { return role == Role::kConstant; }
};

class Attribute : public std::variant<bool, int64_t, double, std::string, std::vector<int64_t>,
                                      std::vector<double>> {
 public:
  using variant::variant;
  using variant::operator=;
  Attribute() = default;
  // Copies the value first, because libstdc++ 12 destroys a value that does not exist if the copy
  // throws within a std::variant of these types (its bug 112591).
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

// The result of reading an attribute: a reference for texts and lists. A struct, because compilers
// disagree about the names of functions whose type has is_scalar_v in it.
template <typename T>
struct AttributeResult {
  using Type = std::conditional_t<std::is_scalar_v<T>, T, const T&>;
};
template <typename T>
using AttributeValue = typename AttributeResult<T>::Type;

// One op. lowering/program/ops.def defines the inputs, the attributes and the meaning of each kind.
struct ProgramOp {
  std::string kind;  // one of ops.def
  // name of its graph node (of the node that computes, if several were fused)
  std::string name;
  std::vector<int> inputs;  // tensor indices, -1: absent
  std::vector<int> outputs;
  Attributes attributes;
  // formulas of the integer attributes that depend on Program::symbols
  std::map<std::string, std::vector<SizeExpr>> sizes;
  // names of all graph nodes fused into it, for --explain
  std::vector<std::string> sources;
  std::string module;  // innermost module path, may be empty
  // multiply-accumulates per run, 0 if the op has none
  int64_t macs = 0;

  bool is(OpKind wanted) const { return wanted == kind; }
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] >= 0; }

  // The value of an attribute, or its default in ops.def, or `fallback`. Integers convert to reals.
  // Throws Error if the attribute has another type, which only a damaged file can cause. The
  // argument "beta" of a custom op is get(attr::Real("beta")).
  template <typename T>
  AttributeValue<T> get(const AttributeKey<T>& key) const;
  template <typename T>
  T get(const AttributeKey<T>& key, const std::type_identity_t<T>& fallback) const {
    return has(key) ? T(get(key)) : fallback;
  }
  bool has(const AttributeSpec& key) const { return attributes.contains(key.name); }
  template <typename T>
  std::optional<T> find(const AttributeKey<T>& key) const {
    return has(key) ? std::optional<T>(get(key)) : std::nullopt;
  }

 private:
  template <typename T>
  const T* find_value(std::string_view key) const;
};

// A sequence of ops on one backend, or one op of control flow ("control"), which the session runs.
// Segments execute in order and exchange plain row-major tensors.
struct Segment {
  std::string backend;
  std::vector<int> ops;      // indices into Program::ops, in execution order
  std::vector<int> inputs;   // tensors read that are neither constants nor made here
  std::vector<int> outputs;  // tensors made here that later segments or the caller read
};

// A value that is kept from run to run, made from a buffer that the exported program writes (a
// cache, a counter, running statistics). Its size is fixed.
struct ProgramState {
  std::string name;  // path of the buffer in the module: "layers.0.cache.k"
  // the tensor that ops read; it has the role kState and no op makes it
  int value = -1;
  // the tensor whose elements the state takes after the run, of the same dtype and shape
  int next = -1;
  // the constant with the value for the first run, of the same dtype and shape; -1: zeros
  int start = -1;
};

// A size that the inputs of a run decide. The shapes and attributes of a Program are those for the
// hints; lowering/program/specialize.h computes others.
struct ShapeSymbol {
  std::string name;  // as torch.export named it: "s77"
  int64_t min = 0;
  int64_t max = 0;
  int64_t hint = 0;  // in [min, max]: the size of the exported example
  bool operator==(const ShapeSymbol&) const = default;
};

struct Program {
  std::string backend;                          // "xnnpack"; of several: "acme_npu,xnnpack"
  std::map<std::string, std::string> versions;  // "octet", "onednn", "xnnpack" at lowering time
  std::vector<ProgramTensor> tensors;
  std::vector<ProgramOp> ops;
  std::vector<Segment> segments;
  // tensor indices, one per flattened user input; -1 for one that is not a tensor or is unused
  std::vector<int> inputs;
  // tensor indices in the order of the flattened outputs; may repeat
  std::vector<int> outputs;
  // The bodies of control flow (lowering/program/control.h): programs for the same backends, with
  // inputs in the order of the op's; -1 where an input is not read.
  std::vector<Program> bodies;
  // values that a session keeps from run to run; empty: runs are independent
  std::vector<ProgramState> states;
  // open sizes, each decided by the shape of an input; empty: all shapes are fixed
  std::vector<ShapeSymbol> symbols;
  std::map<std::string, std::string> reasons;  // op name -> why not on the first of `backend`
  // The checksum in the file that the program was read from; empty for other programs.
  std::string checksum;
  std::shared_ptr<const Storage> file;  // the file's bytes; null unless compared with the checksum

  // Access by index, which must be valid: not -1, the absent input.
  ProgramTensor& tensor(int index) { return tensors[static_cast<size_t>(index)]; }
  const ProgramTensor& tensor(int index) const { return tensors[static_cast<size_t>(index)]; }
  ProgramOp& op(int index) { return ops[static_cast<size_t>(index)]; }
  const ProgramOp& op(int index) const { return ops[static_cast<size_t>(index)]; }
  // The tensors that exist before the first op: the inputs and the states' values.
  std::vector<int> given() const;
  // The tensors that must exist after the last op: the outputs and the states' next values.
  std::vector<int> results() const;
  // The tensor at position i of the op's inputs, if has_input(i), or of its outputs.
  const ProgramTensor& input(const ProgramOp& op, size_t i) const { return tensor(op.inputs[i]); }
  const ProgramTensor& output(const ProgramOp& op, size_t i = 0) const {
    return tensor(op.outputs[i]);
  }
};

// Prints ops, tensors and segments, with one line per op:
//
//   onednn  conv2d_1: u8[1,16,56,56] = conv(x u8[1,3,112,112], w i8[16,3,3,3] per-channel, b)
//           stride=[2,2] post_min=0 post_max=6
std::string to_text(const Program& program);

// Throws InternalError when indices, shapes or the order of definitions are inconsistent, a scale
// is not positive and finite, or an op has an attribute that its kind lacks. depth: how many
// programs contain this one as a body.
void verify(const Program& program, size_t depth = 0);

}  // namespace octet
