// Emits the ops that one node becomes. A decomposition reads like an expression of tensors; shapes
// and dtypes follow from the operands.
//
//   Steps s(importer, node);                                 // rms_norm(x) * weight
//   const int x = s.operand("input");
//   s.give(s.mul(s.mul(x, s.unary("rsqrt", s.add(s.mean(s.mul(x, x), {-1}), eps))), weight));
//
// An int that stands for a tensor is its index in Program::tensors.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lowering/import/importer.h"
#include "lowering/import/rows.h"

namespace octet {

class Steps {
 public:
  Steps(Importer& importer, const Node& node, const char* word = "")
      : importer_(importer), node_(node), word_(word) {}

  // The `word` of the row (ImportRow::word).
  const char* word() const { return word_; }

  // ---- operands
  // The tensor of an argument, -1 when it is absent. A literal becomes a 0-dimensional constant:
  // i64 for an int or bool, so that integers stay exact, and f32 for a float.
  int operand(std::string_view name);
  // The argument under the first name that the call has: "self" or "input".
  int operand(std::initializer_list<std::string_view> names);
  int self() { return operand({"self", "input"}); }
  // A 0-dimensional constant of the dtype of `like`.
  int number(double value, int like);
  // A size as a number: i64 without dimensions.
  int size(const SizeExpr& size);
  // 0, 1, 2, ... up to `size` - 1, as i64.
  int numbers(const SizeExpr& size);
  int filled(DType dtype, const std::vector<int64_t>& shape, double value);
  int indices(const std::vector<int64_t>& values, const std::vector<int64_t>& shape);

  // As operand(), but a literal or a size becomes a 0-dimensional constant of the result's dtype.
  int input(std::string_view name);
  std::vector<int64_t> input_shape(std::string_view name) { return tensor(input(name)).shape; }
  int tensor_of(Value* value) { return builder().tensor_of(value); }
  // The tensors in a list argument.
  std::vector<int> tensors(std::string_view name);
  // The tensor of a number: a size or what is computed from sizes (i64, f64 or bool, without
  // dimensions). Refuses the node when no op computes it.
  int number_of(Value* value);
  // The parts of a complex64 or float32 value; nullopt for other dtypes and for values whose node
  // was not imported.
  std::optional<ComplexParts> parts_of(Value* value);
  // The data of a parameter, buffer or constant that the graph does not write to; null for other
  // values.
  const Tensor* find_fixed_constant(const Value* value) const;

  const ProgramTensor& tensor(int x) const { return builder().tensor(x); }
  Sizes sizes(int x) const { return builder().sizes(x); }
  size_t rank(int x) const { return tensor(x).shape.size(); }
  DType dtype(int x) const { return tensor(x).dtype; }
  // `dim` counted from the front, in [0, rank).
  size_t dim_of(int x, int64_t dim) const {
    return static_cast<size_t>(positive_dim(dim, rank(x)));
  }

  // The attribute "dim" from the node's argument, in [0, rank); 0 for a tensor without dimensions.
  Attributes dim_attribute(int x, int64_t fallback) const {
    const auto dim = rank(x) == 0 ? 0 : dim_of(x, node_.int_or("dim", fallback));
    return {{attr::kDim, static_cast<int64_t>(dim)}};
  }

  // ---- elements
  int op(const std::string& kind, std::vector<int> inputs, const Sizes& sizes, DType dtype,
         Attributes attributes = {}) {
    return builder().emit_step(node_, kind, std::move(inputs), sizes, dtype, std::move(attributes));
  }
  int unary(const char* function, int x, std::optional<double> alpha = std::nullopt);
  // kind: add, sub, mul, div, minimum, maximum. The result has the dtype of the operand that is not
  // a 0-dimensional constant.
  int arithmetic(const char* kind, int a, int b);
  int add(int a, int b) { return arithmetic("add", a, b); }
  int sub(int a, int b) { return arithmetic("sub", a, b); }
  int mul(int a, int b) { return arithmetic("mul", a, b); }
  int div(int a, int b) { return arithmetic("div", a, b); }
  // Emits the op `binary` with this function.
  int binary(const char* function, int a, int b, DType dtype);
  int compare(const char* function, int a, int b) { return binary(function, a, b, DType::kBool); }
  int where(int condition, int a, int b);
  int clamp(int x, std::optional<double> low, std::optional<double> high);
  int cast(int x, DType dtype);
  // Casts reals to `result` if it is an integer type, because torch converts operands before it
  // adds or multiplies, which drops fractions. Kernels convert other operands as they read them.
  int whole_first(int x, DType result) {
    return is_floating_point(dtype(x)) && !is_floating_point(result) ? cast(x, result) : x;
  }

  // ---- reductions (without dims, over all dimensions)
  int reduce(const char* function, int x, std::vector<int64_t> dims, bool keepdim,
             std::optional<DType> dtype = std::nullopt);
  int running_sum(int x);  // cumulative sum of a 1-dimensional tensor, as i64
  int mean(int x, std::vector<int64_t> dims, bool keepdim = true);

  // ---- products
  // [..., M, K] times [..., K, N]
  int matmul(int a, int b);

  // ---- movement
  int reshape(int x, const Sizes& sizes);
  int flatten(int x);  // to one dimension
  int permute(int x, const std::vector<int64_t>& dims);
  int transpose(int x, int64_t dim0, int64_t dim1);
  int unsqueeze(int x, int64_t dim);  // dim: of the result
  int expand(int x, const Sizes& sizes);
  int slice(int x, int64_t dim, const SizeExpr& start, const SizeExpr& size, int64_t step = 1);
  int cat(const std::vector<int>& inputs, int64_t dim);
  // Replaces x[start::step] along a dimension by `source`. to_end: the source reaches the end of
  // the dimension, which formulas of sizes need not show.
  int put_slice(int x, size_t dim, const SizeExpr& start, int64_t step, int source,
                bool to_end = false);
  // Replaces the slices at these positions of a dimension of fixed size by `source`.
  int put_at(int x, size_t dim, const std::vector<int64_t>& places, int source);
  // Reshapes a tensor without dimensions to one element in one dimension.
  int at_least_1d(int x) { return rank(x) == 0 ? reshape(x, {SizeExpr(1)}) : x; }
  // Selects the slices at `indices` (constant, within bounds) along a dimension.
  int take(int x, int64_t dim, const std::vector<int64_t>& indices);

  // ---- results
  // Makes x the node's result. Casts and reshapes it if the graph recorded another dtype or shape.
  void give(int x) { give(node_.outputs().front(), x); }
  void give(Value* value, int x);
  void give_parts(Value* value, ComplexParts parts) { builder().complex()[value] = parts; }
  // Makes `value` an existing tensor.
  void alias(Value* value, int tensor) { builder().alias(value, tensor); }
  // Appends an op that gives the node's result, one value, or several values, with the dtypes and
  // shapes that the graph recorded.
  ProgramOp& emit(const std::string& kind, std::vector<int> inputs, Attributes attributes = {}) {
    return emit_value(node_.outputs().front(), kind, std::move(inputs), std::move(attributes));
  }
  ProgramOp& emit_value(Value* value, const std::string& kind, std::vector<int> inputs,
                        Attributes attributes = {}) {
    return emit_values({value}, kind, std::move(inputs), std::move(attributes));
  }
  ProgramOp& emit_values(const std::vector<Value*>& values, const std::string& kind,
                         std::vector<int> inputs, Attributes attributes = {}) {
    return builder().emit(node_, values, kind, std::move(inputs), std::move(attributes));
  }
  // Adds a result without a value in the graph to the last op.
  int add_result(const std::string& name, DType dtype, const Sizes& sizes);
  // Writes `tensor` into the value and into what the value is a view of.
  void write(Value* written, int tensor);

  // ---- sizes
  Sizes sizes_of(const Value& value) const { return size_table().sizes_of(value); }
  // The shape of the node's (first) result.
  Sizes result_sizes() const { return sizes_of(*node_.outputs().front()); }
  // An int argument that may be symbolic. Refuses the node and returns 0 if only the running
  // program decides the size.
  SizeExpr size_argument(const Node& node, const char* name, int64_t fallback) const;
  Sizes sizes_argument(const Node& node, const char* name) const {
    return size_table().sizes_argument(node, name);
  }
  // The size of a dimension if it is fixed; otherwise refuses the node.
  std::optional<int64_t> fixed_size(int x, size_t dim);
  SizeExpr new_size(size_t dim = 0) const { return size_table().new_size(node_, dim); }
  // Emits the first `count` of `rows`, a number that the graph calls `size`, and makes the symbol
  // of `size` known. Refuses the node and returns -1 if `size` is a formula with an unknown symbol.
  // has_range: the range that torch.export recorded for the symbol holds.
  int first_rows(int rows, int count, const SizeExpr& size, bool has_range = true);
  // As first_rows, for a count without rows. Refused if the count has no upper bound.
  int first_numbers(int count, const SizeExpr& size);

  // ---- refusals
  // Records that this call of a known op cannot be expressed. The import continues and fails at its
  // end.
  void refuse(const std::string& why, RefusalKind kind = RefusalKind::kOp) const;
  // Stops the import with Error("lower", node, what).
  [[noreturn]] void fail(const std::string& what) const;

  // ---- the import
  Importer& importer() const { return importer_; }
  ProgramBuilder& builder() const { return importer_.builder(); }
  SizeTable& size_table() const { return importer_.sizes(); }
  Program& program() const { return builder().program; }
  void set_size(const std::string& key, const SizeExpr& size) { builder().set_size(key, size); }
  void set_sizes(const std::string& key, const Sizes& sizes) { builder().set_sizes(key, sizes); }
  int add_constant(const std::string& name, Tensor data,
                   std::optional<TensorQParams> qparams = {}) {
    return builder().add_constant(name, std::move(data), std::move(qparams));
  }

 private:
  Importer& importer_;
  const Node& node_;
  const char* word_;
};

// The range of slice, slice_scatter or narrow in a dimension of that size. to_end: it reaches the
// end of the dimension.
struct SliceRange {
  SizeExpr start;
  bool to_end = false;
};
SliceRange slice_range(const Steps& s, const Node& node, const SizeExpr& size);
// The index of select or select_scatter, counted from the front.
SizeExpr select_place(const Steps& s, const Node& node, const SizeExpr& size);

SizeExpr element_count(const Sizes& sizes);
// The shape that both broadcast to. A symbolic size replaces only sizes of 1.
Sizes broadcast(const Sizes& a, const Sizes& b);

// order.cpp: stably sorts x in ascending order along a dimension, and gives the index that each
// element had.
struct Sorted {
  int values, indices;
  int64_t dim;
};
Sorted sorted_along(Steps& s, const Node& node, int x, int64_t dim);

// places.cpp: replaces the elements of `base` that its aten.diagonal `view` shows by `written`; -1
// when a size is not fixed.
int put_diagonal(Steps& s, const Node& view, int base, int written);
// As put_diagonal, for an aten.as_strided `view`; -1 when its elements cannot be determined or
// overlap.
int put_strided(Steps& s, const Node& view, int base, int written);

// counts.cpp: finds the elements of a tensor that are not 0.
struct Places {
  int rows = -1;   // i64[elements of the tensor, its rank]: their indices, in row-major order
  int count = -1;  // i64 without dimensions: how many rows are valid
};
Places find_places(Steps& s, const Node& node, int x);
// The valid rows. The graph calls their number `size`. Returns -1 when refused.
int first_places(Steps& s, const Node& node, int x, const SizeExpr& size);
// Column d of `rows`, with one dimension.
int column(Steps& s, int rows, int64_t d);

}  // namespace octet
