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

namespace octet {

class Steps {
 public:
  Steps(Importer& importer, const Node& node) : importer_(importer), node_(node) {}

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

  Importer& importer() { return importer_; }
  const ProgramTensor& tensor(int x) const { return importer_.tensor(x); }
  Sizes sizes(int x) const { return importer_.sizes(x); }
  size_t rank(int x) const { return importer_.tensor(x).shape.size(); }
  DType dtype(int x) const { return importer_.tensor(x).dtype; }
  // In [0, rank).
  size_t dim_of(int x, int64_t dim) const {
    return static_cast<size_t>(positive_dim(dim, rank(x)));
  }

  // {"dim": of the node, in [0, rank)}; 0 for a tensor without dimensions.
  Attributes dim_attribute(int x, int64_t fallback) const {
    const auto dim = rank(x) == 0 ? 0 : dim_of(x, node_.int_or("dim", fallback));
    return {{"dim", static_cast<int64_t>(dim)}};
  }

  // ---- elements
  int op(const std::string& kind, std::vector<int> inputs, const Sizes& sizes, DType dtype,
         Attributes attributes = {}) {
    return importer_.emit_step(node_, kind, std::move(inputs), sizes, dtype, std::move(attributes));
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

 private:
  Importer& importer_;
  const Node& node_;
};

// Where slice, slice_scatter or narrow starts in a dimension of that size, and whether it takes all
// from there on.
struct SliceRange {
  SizeExpr start;
  bool to_end = false;
};
SliceRange slice_range(Importer& importer, const Node& node, const SizeExpr& size);
// The index of select or select_scatter, counted from the front.
SizeExpr select_place(Importer& importer, const Node& node, const SizeExpr& size);

SizeExpr element_count(const Sizes& sizes);
// The shape that both broadcast to; a size that depends on symbols wins over 1 only.
Sizes broadcast(const Sizes& a, const Sizes& b);

// order.cpp: x in ascending order along a dimension, equal elements as they stand, and where each
// comes from.
struct Sorted {
  int values, indices;
  int64_t dim;
};
Sorted sorted_along(Steps& s, const Node& node, int x, int64_t dim);

// places.cpp: `base` with `written` in the place of its aten.diagonal `view`; -1 when its size is
// not fixed.
int put_diagonal(Steps& s, const Node& view, int base, int written);
// The same of its aten.as_strided; -1 when its elements cannot be told, or lie on each other.
int put_strided(Steps& s, const Node& view, int base, int written);

}  // namespace octet
