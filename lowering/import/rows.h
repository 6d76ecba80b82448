// The tables of ATen ops that the import asks: what each op becomes in a Program.
//
// An op that other ops compose is one row and one function of Steps:
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
  // The target without overload and without the underscore of in-place twins.
  const char* op;
  void (*import)(Steps&, const Node&);
  // What tells rows with one function apart, as Steps::word(): {"aten.erf", import_unary, "erf"}.
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
// of nodes that read or give complex numbers
std::span<const ImportRow> complex_import_rows();

// Whether the node's row may give sizes that only a run decides: nonzero, a mask as an index.
bool counts_when_run(const Node& node);

// ---- what rows of one file leave to another one

// repeat_interleave by a number.
void import_equal_repeats(Steps& s, const Node& node);
// where(condition) alone.
bool is_nonzero_by_where(const Node& node);
// nonzero, a tensor of indices for each dimension.
void import_nonzero_by_dimension(Steps& s, const Node& node);
// The argument `indices`: a tensor for each dimension, or a mask for several; null: none.
std::vector<Value*> index_values(const Node& node);
// index by masks among tensors of indices.
void import_index_by_mask(Steps& s, const Node& node, int x, const std::vector<int>& indices);
// Where x is negative; -0 is, too.
int is_negative(Steps& s, int x);
// argmax or argmin of self along dim, as `value`.
void import_arg_reduce(Steps& s, const Node& node, const char* function, Value* value);
// max_pool, adaptive too, of fixed sizes: values and where they are.
void import_pool_with_indices(Steps& s, const Node& node);
// mode: reflect, replicate, circular.
void import_borders(Steps& s, const Node& node, std::string_view mode);
// batch_norm by the statistics of its input, and what they make of the running ones.
void import_own_statistics(Steps& s, const Node& node);
// Where the second and third result of a norm are used: mean and 1 / sqrt(variance + eps) of x over
// its last dimensions.
void import_norm_statistics(Steps& s, const Node& node, int x, int64_t dims);
// addmm with alpha or beta.
void import_scaled_addmm(Steps& s, const Node& node);
// A complex64 or real spectrogram, and the signal of one.
void import_stft(Steps& s, const Node& node);
void import_istft(Steps& s, const Node& node);
// An op of any name for which a kernel is registered (custom_kernel.h).
void import_custom(Steps& s, const Node& node);

// Why keep_whole() cannot take the node, "" when it can.
std::string find_part_missing(const Node& node);
// Emits the node as an op of kind "aten", for the backend torch. Returns why it cannot, else "".
std::string keep_whole(Steps& s, const Node& node);

// ---- arguments

// Throws Error when a size of the value is symbolic.
std::vector<int64_t> static_shape(const Value& value);
// Whether the call has the argument, and not as None.
bool is_given(const Node& node, std::string_view name);
// An argument that is a string; "" when the call has none.
std::string text_argument(const Node& node, std::string_view name);
// An argument that is the literal of an int or a bool.
std::optional<int64_t> find_whole(const Node& node, std::string_view name);
// A literal argument without dimensions: i64 where the node's result is of integers, f64 where it
// is of f64, else f32.
Tensor literal_operand(const Node& node, std::string_view name);
// A literal argument as an attribute: an int64_t where a double would round it, else a double.
Attribute literal_attribute(const Node& node, std::string_view name, double fallback);
// One number repeated when a list of `count` is wanted.
std::vector<int64_t> repeated(std::vector<int64_t> values, size_t count);
int64_t positive_dim(int64_t dim, size_t rank);
inline bool is_complex(DType dtype) {
  return dtype != DType::kBool && !is_integer(dtype) && !is_floating_point(dtype);
}

}  // namespace octet
