// Writes the ops that one node becomes, for decompositions: an expression of tensors gives the ops,
// their shapes and dtypes follow from the operands.
//
//   Steps s(importer, node);                                 // rms_norm(x) * weight
//   const int x = s.operand("input");
//   s.give(s.mul(s.mul(x, s.unary("rsqrt", s.add(s.mean(s.mul(x, x), {-1}), eps))), weight));
//
// Tensors are indices of Program::tensors, as everywhere in the import.
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

  // The row's third column.
  const char* word() const { return word_; }

  // ---- operands
  // -1 when absent. A literal becomes a 0-dimensional constant: of an int or bool, of type i64, so
  // that integers stay exact; of a float, f32.
  int operand(std::string_view name);
  // The first of the names that the call has: "self" or "input".
  int operand(std::initializer_list<std::string_view> names);
  int self() { return operand({"self", "input"}); }
  // A 0-dimensional constant of the dtype of `like`.
  int number(double value, int like);
  // The number that a size is, i64 without dimensions.
  int size(const SizeExpr& size);
  // 0, 1, 2, ...: as many as the size is, i64.
  int numbers(const SizeExpr& size);
  int filled(DType dtype, const std::vector<int64_t>& shape, double value);
  int indices(const std::vector<int64_t>& values, const std::vector<int64_t>& shape);

  // A literal becomes a 0-dimensional constant of the result's dtype, a size too.
  int input(std::string_view name);
  std::vector<int64_t> input_shape(std::string_view name) { return tensor(input(name)).shape; }
  int tensor_of(Value* value) { return builder().tensor_of(value); }
  // The tensors in a list argument.
  std::vector<int> tensors(std::string_view name);
  // A size, or a number computed from sizes, as a tensor without dimensions (i64, f64, bool).
  // Refuses the node when nothing here computes it.
  int number_of(Value* value);
  // A complex64 or float32 value; nullopt for others and for what no row gave.
  std::optional<ComplexParts> parts_of(Value* value);
  // The data of a parameter, buffer or constant that the graph does not write to; null for anything
  // else.
  const Tensor* find_fixed_constant(const Value* value) const;

  const ProgramTensor& tensor(int x) const { return builder().tensor(x); }
  Sizes sizes(int x) const { return builder().sizes(x); }
  size_t rank(int x) const { return tensor(x).shape.size(); }
  DType dtype(int x) const { return tensor(x).dtype; }
  // In [0, rank).
  size_t dim_of(int x, int64_t dim) const {
    return static_cast<size_t>(positive_dim(dim, rank(x)));
  }

  // {"dim": of the node, in [0, rank)}; 0 for a tensor without dimensions.
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
  // kind: add, sub, mul, div, minimum, maximum. The result has the dtype of the operand that is no
  // 0-dimensional constant.
  int arithmetic(const char* kind, int a, int b);
  int add(int a, int b) { return arithmetic("add", a, b); }
  int sub(int a, int b) { return arithmetic("sub", a, b); }
  int mul(int a, int b) { return arithmetic("mul", a, b); }
  int div(int a, int b) { return arithmetic("div", a, b); }
  // A function of the op `binary`.
  int binary(const char* function, int a, int b, DType dtype);
  int compare(const char* function, int a, int b) { return binary(function, a, b, DType::kBool); }
  int where(int condition, int a, int b);
  int clamp(int x, std::optional<double> low, std::optional<double> high);
  int cast(int x, DType dtype);
  // x as a sum or a product of `result` takes it: torch converts before it computes, so that reals
  // lose their fractions (kernels convert all else as they read it).
  int whole_first(int x, DType result) {
    return is_floating_point(dtype(x)) && !is_floating_point(result) ? cast(x, result) : x;
  }

  // ---- reductions; no dims: all of them
  int reduce(const char* function, int x, std::vector<int64_t> dims, bool keepdim,
             std::optional<DType> dtype = std::nullopt);
  int running_sum(int x);  // of elements in a row, i64
  int mean(int x, std::vector<int64_t> dims, bool keepdim = true);

  // ---- products
  // [..., M, K] times [..., K, N]
  int matmul(int a, int b);

  // ---- movement
  int reshape(int x, const Sizes& sizes);
  int flatten(int x);  // all elements in a row
  int permute(int x, const std::vector<int64_t>& dims);
  int transpose(int x, int64_t dim0, int64_t dim1);
  int unsqueeze(int x, int64_t dim);  // dim: of the result
  int expand(int x, const Sizes& sizes);
  int slice(int x, int64_t dim, const SizeExpr& start, const SizeExpr& size, int64_t step = 1);
  int cat(const std::vector<int>& inputs, int64_t dim);
  // x with `source` in the place of x[start::step] along a dimension. to_end: the source reaches up
  // to the end there, which formulas of sizes need not show.
  int put_slice(int x, size_t dim, const SizeExpr& start, int64_t step, int source,
                bool to_end = false);
  // x with `source` at these places along a dimension, whose size is fixed.
  int put_at(int x, size_t dim, const std::vector<int64_t>& places, int source);
  // A tensor without dimensions as a row of one element.
  int at_least_1d(int x) { return rank(x) == 0 ? reshape(x, {SizeExpr(1)}) : x; }
  // The elements at `indices` (constant, within the size) along a dimension.
  int take(int x, int64_t dim, const std::vector<int64_t>& indices);

  // ---- results
  // x is the node's result: cast and reshaped to what the graph recorded for it where it differs.
  void give(int x) { give(node_.outputs().front(), x); }
  void give(Value* value, int x);
  void give_parts(Value* value, ComplexParts parts) { builder().complex()[value] = parts; }
  // `value` is an existing tensor.
  void alias(Value* value, int tensor) { builder().alias(value, tensor); }
  // Appends an op that gives the node's result, one value, or several. Dtypes and shapes are those
  // that the graph recorded.
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
  // One more result of the last op, without a value in the graph.
  int add_result(const std::string& name, DType dtype, const Sizes& sizes);
  // The value, and what it is a view of, have what `tensor` has from here on.
  void write(Value* written, int tensor);

  // ---- sizes
  Sizes sizes_of(const Value& value) const { return size_table().sizes_of(value); }
  // The shape of the node's (first) result.
  Sizes result_sizes() const { return sizes_of(*node_.outputs().front()); }
  // An int argument, or list of them, that may be symbolic. Refuses one that only the program
  // decides, and gives 0.
  SizeExpr size_argument(const Node& node, const char* name, int64_t fallback) const;
  Sizes sizes_argument(const Node& node, const char* name) const {
    return size_table().sizes_argument(node, name);
  }
  // The size of a dimension when it is fixed; refuses the node otherwise.
  std::optional<int64_t> fixed_size(int x, size_t dim);
  SizeExpr new_size(size_t dim = 0) const { return size_table().new_size(node_, dim); }
  // The first `count` (i64 without dimensions) of `rows`, a number that the graph calls `size`: its
  // symbols are known from here on. -1, with a refusal, where nothing follows from it. has_range:
  // the range that torch.export recorded holds.
  int first_rows(int rows, int count, const SizeExpr& size, bool has_range = true);
  // As first_rows, where `count` alone is the size. Refused where it has no greatest value.
  int first_numbers(int count, const SizeExpr& size);

  // ---- refusals
  // This call of a known op cannot be expressed; the import goes on and fails at its end.
  void refuse(const std::string& why, RefusalKind kind = RefusalKind::kOp) const;
  // Stops here with Error("lower", node, what).
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

// Where slice, slice_scatter or narrow starts in a dimension of that size, and whether it takes all
// from there on.
struct SliceRange {
  SizeExpr start;
  bool to_end = false;
};
SliceRange slice_range(const Steps& s, const Node& node, const SizeExpr& size);
// The index of select or select_scatter, counted from the front.
SizeExpr select_place(const Steps& s, const Node& node, const SizeExpr& size);

SizeExpr element_count(const Sizes& sizes);
// The shape that both broadcast to; a size that depends on symbols wins over 1 only.
Sizes broadcast(const Sizes& a, const Sizes& b);

// order.cpp: x in ascending order along a dimension, equal elements in their order, and where each
// comes from.
struct Sorted {
  int values, indices;
  int64_t dim;
};
Sorted sorted_along(Steps& s, const Node& node, int x, int64_t dim);

// places.cpp: `base` with `written` in the place of its aten.diagonal `view`; -1 when its size is
// not fixed.
int put_diagonal(Steps& s, const Node& view, int base, int written);
// As put_diagonal, for an aten.as_strided `view`; -1 when its elements cannot be told, or overlap.
int put_strided(Steps& s, const Node& view, int base, int written);

// counts.cpp: where a tensor is not 0.
struct Places {
  int rows = -1;   // [elements of the tensor, its dimensions], i64: where it is not 0, in order
  int count = -1;  // i64 without dimensions: how many of them there are
};
Places find_places(Steps& s, const Node& node, int x);
// The first `count` of them, a number that the graph calls `size`; -1 when refused.
int first_places(Steps& s, const Node& node, int x, const SizeExpr& size);
// Column d of rows, one number for each.
int column(Steps& s, int rows, int64_t d);

}  // namespace octet
