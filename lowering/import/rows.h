// Declares the tables that map ATen ops to Program ops, one table for each family of ops.
//
// To import an op as a composition of others, add a row and a function that calls Steps:
//
//   void import_square(Steps& s, const Node&) {
//     const int x = s.self();
//     s.give(s.mul(x, x));
//   }
//   {"aten.square", import_square},
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

class Steps;

struct ImportRow {
  // The target without its overload. In-place ops are found by the name without the underscore.
  const char* op;
  void (*import)(Steps&, const Node&);
  // Distinguishes rows that share a function, which reads it as Steps::word(): {"aten.erf",
  // import_unary, "erf"}.
  const char* word = "";
};

// ---- the families

std::span<const ImportRow> compute_import_rows();
std::span<const ImportRow> arithmetic_import_rows();
std::span<const ImportRow> shape_import_rows();
std::span<const ImportRow> quantization_import_rows();
std::span<const ImportRow> attention_import_rows();
std::span<const ImportRow> statistics_import_rows();
std::span<const ImportRow> recurrent_import_rows();
std::span<const ImportRow> function_import_rows();
std::span<const ImportRow> indexing_import_rows();
std::span<const ImportRow> rearrange_import_rows();
std::span<const ImportRow> window_import_rows();
std::span<const ImportRow> composed_import_rows();
std::span<const ImportRow> product_import_rows();
std::span<const ImportRow> upsample_import_rows();
std::span<const ImportRow> filled_import_rows();
std::span<const ImportRow> control_import_rows();
std::span<const ImportRow> order_import_rows();
std::span<const ImportRow> place_import_rows();
std::span<const ImportRow> count_import_rows();
std::span<const ImportRow> unique_import_rows();
// Rows for nodes that read or give complex numbers.
std::span<const ImportRow> complex_import_rows();

// Whether the node may give data-dependent sizes: nonzero, a mask as an index.
bool counts_when_run(const Node& node);

// ---- functions that rows of other files call

// Imports repeat_interleave with one number for all rows.
void import_equal_repeats(Steps& s, const Node& node);
// Whether the node is where(condition) without the other two arguments, which means nonzero.
bool is_nonzero_by_where(const Node& node);
// Imports nonzero that gives a tensor of indices for each dimension.
void import_nonzero_by_dimension(Steps& s, const Node& node);
// The argument `indices`: a tensor for each dimension, a mask for several dimensions, or null for a
// dimension that is not indexed.
std::vector<Value*> index_values(const Node& node);
// Imports index where some of the indices are masks.
void import_index_by_mask(Steps& s, const Node& node, int x, const std::vector<int>& indices);
// Emits a test for negative elements, -0 included.
int is_negative(Steps& s, int x);
// Imports argmax or argmin of self along dim as `value`.
void import_arg_reduce(Steps& s, const Node& node, const char* function, Value* value);
// Imports max_pool or adaptive max_pool of fixed sizes, with the indices of the maxima.
void import_pool_with_indices(Steps& s, const Node& node);
// Imports a pad that repeats elements of x. mode: reflect, replicate, circular.
void import_borders(Steps& s, const Node& node, std::string_view mode);
// Imports batch_norm with the statistics of its input, and the update of the running statistics.
void import_own_statistics(Steps& s, const Node& node);
// Imports the second and third result of a norm where they are used: mean and 1 / sqrt(variance +
// eps) of x over its last dimensions.
void import_norm_statistics(Steps& s, const Node& node, int x, int64_t dims);
// Imports addmm with alpha or beta.
void import_scaled_addmm(Steps& s, const Node& node);
// Import stft, which gives a complex64 or real spectrogram, and its inverse.
void import_stft(Steps& s, const Node& node);
void import_istft(Steps& s, const Node& node);
// Imports an op that has a custom kernel (custom_kernel.h).
void import_custom(Steps& s, const Node& node);

// Why keep_whole() cannot take the node; "" when it can.
std::string find_part_missing(const Node& node);
// Emits the node as an op of kind "aten" for the backend torch. Returns why that is not possible,
// or "".
std::string keep_whole(Steps& s, const Node& node);

// ---- arguments

// Throws Error when a size of the value is symbolic.
std::vector<int64_t> static_shape(const Value& value);
// Whether the call has the argument with a value other than None.
bool is_given(const Node& node, std::string_view name);
// A string argument; "" when the call has none.
std::string text_argument(const Node& node, std::string_view name);
// An argument that is a literal int or bool.
std::optional<int64_t> find_whole(const Node& node, std::string_view name);
// A literal argument as a constant without dimensions. Its dtype is i64 where the node's result has
// integers, f64 where it has f64, else f32.
Tensor literal_operand(const Node& node, std::string_view name);
// A literal argument as an attribute: an int64_t if a double would round it, else a double.
Attribute literal_attribute(const Node& node, std::string_view name, double fallback);
// Repeats a single number `count` times; returns other lists unchanged.
std::vector<int64_t> repeated(std::vector<int64_t> values, size_t count);
int64_t positive_dim(int64_t dim, size_t rank);
inline bool is_complex(DType dtype) {
  return dtype != DType::kBool && !is_integer(dtype) && !is_floating_point(dtype);
}

}  // namespace octet
