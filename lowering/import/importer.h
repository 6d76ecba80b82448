// The state of one import and what the rows of its tables call. Used by import_*.cpp only.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/import/rest.h"
#include "lowering/program/program.h"

namespace octet {

// A shape whose sizes are numbers or formulas of shape symbols.
struct Sizes : std::vector<SizeExpr> {
  using std::vector<SizeExpr>::vector;
  Sizes(const std::vector<SizeExpr>& sizes) : std::vector<SizeExpr>(sizes) {}
  Sizes(const std::vector<int64_t>& numbers)
      : std::vector<SizeExpr>(numbers.begin(), numbers.end()) {}
};

// A complex64 value: two f32 tensors of its shape; imaginary: -1 where it is 0.
struct ComplexParts {
  int real = -1;
  int imaginary = -1;
};

// A size, or what is computed of sizes.
bool is_number(ValueKind kind);
DType dtype_of_number(ValueKind kind);

// What a refusal is about: an op, a write that no op undoes, or a size known only when the program
// runs. LibTorch, as the fallback, helps against the first alone.
enum class RefusalKind { kOp, kWrite, kSize };

class Importer {
 public:
  // depth: in how many bodies the graph stands. known: the symbols of the program around it.
  Importer(const Graph& graph, bool keep_unknown, size_t depth = 0,
           std::vector<ShapeSymbol> known = {});
  // Imports every node. Throws Error that names all ops without a row.
  Program run();

  const Graph& graph() const { return graph_; }
  Program& program() { return program_; }
  // Whether what cannot be imported becomes a part of LibTorch's.
  bool keeps_unknown() const { return keep_unknown_; }

  // The tensor of a Value; of an argument: -1 when absent or None. A literal argument becomes a
  // 0-dimensional constant: i64 where the result is of integers, f64 where it is of f64, else f32.
  int tensor_of(Value* value);
  int operand(const Node& node, std::string_view name);
  // numbers.cpp: a size, or what is computed of sizes, as a tensor without dimensions (i64, f64 or
  // bool). Refuses `user`, who reads it, when nothing here computes it.
  int number_of(const Node& user, Value* value);
  const ProgramTensor& tensor(int index) const { return program_.tensor(index); }
  Sizes sizes(int index) const;
  std::vector<int64_t> input_shape(const Node& node, std::string_view name) {
    return tensor(operand(node, name)).shape;
  }

  // Shape of a value by its meta. Throws Error when it has none, or a size that the inputs' sizes
  // do not decide.
  Sizes sizes_of(const Value& value) const;
  // An int argument, or list of them, that may be symbolic.
  // One that only the program decides is refused, and 0.
  SizeExpr size_argument(const Node& node, const char* name, int64_t fallback);
  Sizes sizes_argument(const Node& node, const char* name) const;
  // The largest that a size can be; -1 when it has no bound worth the name.
  int64_t greatest(const SizeExpr& size) const;

  // Appends an op whose output is the node's only (or given) Value; the Value's meta gives dtype
  // and shape.
  ProgramOp& emit(const Node& node, const std::string& kind, std::vector<int> inputs,
                  Attributes attributes = {});
  ProgramOp& emit_value(const Node& node, Value* value, const std::string& kind,
                        std::vector<int> inputs, Attributes attributes = {});
  // Appends an op with several outputs, the Values' metas give dtypes and shapes.
  ProgramOp& emit_values(const Node& node, const std::vector<Value*>& values,
                         const std::string& kind, std::vector<int> inputs,
                         Attributes attributes = {});
  // Appends an op with an output that has no Value of its own; returns that tensor.
  int emit_step(const Node& node, const std::string& kind, std::vector<int> inputs,
                const Sizes& sizes, DType dtype, Attributes attributes = {});
  // An attribute of the last op: a size, or a list of them.
  void set_size(const std::string& key, const SizeExpr& size);
  void set_sizes(const std::string& key, const Sizes& sizes);
  // An op's last tensor is the node's result: both get the node's names. Of another tensor: alias.
  void give(const Node& node, Value* value, int tensor);
  // `value` is the same as an existing tensor.
  void alias(Value* value, int tensor);
  int add_constant(const std::string& name, Tensor data, std::optional<TensorQParams> qparams = {});
  int add_tensor(ProgramTensor tensor);  // makes the name unique
  int add_intermediate(const std::string& name, DType dtype, const Sizes& sizes);

  // The tensor behind a parameter, buffer or constant that the graph does not write to; null for
  // anything else.
  const Tensor* find_fixed_constant(const Value* value) const;
  // complex.cpp: a complex64 or float32 value; nothing for others and for what no row gave.
  std::optional<ComplexParts> parts_of(Value* value);
  void give_parts(Value* value, ComplexParts parts);
  // writes.cpp: from here on `written`, what it is a view of, and other views of that have what
  // `tensor` has. Refuses the writer when that cannot be expressed.
  void write(const Node& writer, Value* written, int tensor);
  // counts.cpp: the first `count` (i64 without dimensions) of `rows`, a number that the graph calls
  // `size`: its symbols are known from here on. -1, with a refusal, where nothing follows from it.
  // has_range: what torch.export recorded as its range holds.
  int first_rows(const Node& node, int rows, int count, const SizeExpr& size,
                 bool has_range = true);
  bool is_counted(const SizeExpr& size) const;  // whether only a run decides it
  // The same of nothing but a number: `count` is the size. Refused where it has no greatest value.
  int first_numbers(const Node& node, int count, const SizeExpr& size);
  // The size in the node's result that is not known yet; `dim`'s when all are.
  SizeExpr new_size(const Node& node, size_t dim = 0) const;
  // A body of a branch or a loop. Throws Error as run() does, and when it writes into its
  // constants.
  Program import_body(const Node& node, const Graph& body);

  // torch's expression of a size (parse_size), with what is known of symbols that results of
  // branches have.
  SizeExpr formula_of(const std::string& expression, const Value& value) const;
  // From here on the symbol is this size.
  void define(const std::string& symbol, const SizeExpr& size) { defined_.emplace(symbol, size); }
  bool is_known(const std::string& symbol) const { return hints_.contains(symbol); }
  // Refuses results with sizes that are not known; whether there were some.
  bool refuse_new_sizes(const Node& node);
  // Whether the inputs' sizes decide it.
  bool has_size_formula(const Value& value) const;
  // Stops here with Error("lower", node, what).
  [[noreturn]] void fail(const Node& node, const std::string& what) const;
  // Notes that this call of a known op cannot be expressed; the import goes on and fails at its
  // end.
  void refuse(const Node& node, const std::string& why, RefusalKind kind = RefusalKind::kOp);

 private:
  void import_inputs();
  // states.cpp: what the graph writes into its buffers.
  void import_states();
  void import_next_states();
  bool is_state(const Value* value) const;
  void declare_symbols();
  std::vector<int64_t> evaluate_known(const Sizes& sizes,
                                      const std::vector<int64_t>& recorded) const;
  void import_number_inputs();
  int make_number(const Node& user, Value* value);  // -1: not computed here
  int result_number(Value* value);
  void fail_if_refused() const;
  // number_of as an operand of user's arithmetic: of its result's dtype where that is floating.
  int number_operand(const Node& user, Value* value);
  // Numbers of nothing but sizes are there before all else, so that they cut no segment in two.
  void put_sizes_first();
  void import_node(const Node& node);
  void import_outputs();
  // writes.cpp: what an in-place op wrote is seen through its input, what that is a view of, and
  // other views of it.
  void write_back(const Node& node);
  bool write_to(const Node& writer, Value*& value, int tensor);
  void refresh_views(const Node& writer, const Value* root);
  std::string unique_op_name(const std::string& base);
  // Whether the node gives, or reads, sizes that no input decides; refuses the one that gives them.
  bool refuse_open_ends(const Node& node);
  bool has_new_size(const Node& node) const;
  RangeConstraint range_of(const std::string& symbol) const;  // as torch.export recorded it
  std::string find_new_symbol(const Value& value) const;      // of its sizes; "" when all are known
  void refuse_size(const Node& node, const std::string& name);
  void mark_open_ends(const Node& node);
  SizeExpr dim_formula(const Dim& dim, const Value& value) const;
  void note_item_sizes();
  int64_t most_of(const SizeExpr& size) const;  // at the greatest values of all symbols
  // A number of item() that sizes follow from.
  void import_item(const Node& node);
  void stand_in(const Node& node);  // results of a refused node, so that the import can go on

  const Graph& graph_;
  const bool keep_unknown_;
  const size_t depth_;
  const std::vector<ShapeSymbol> known_;
  bool keeps_complex_ = false;
  Program program_;
  SymbolValues hints_;
  std::vector<CountedSize> counted_;
  std::map<std::string, SizeExpr> defined_;  // symbols that are other sizes
  std::set<std::string> item_sizes_;  // symbols of sizes in the graph, where it has an item()
  std::set<std::string> endless_;     // those of items without a greatest value
  std::set<std::string> undecided_;   // symbols of refused sizes, which have hints of no meaning
  std::unordered_map<const Value*, int> tensors_;
  std::unordered_map<const Value*, int> numbers_;
  std::unordered_map<const Value*, ComplexParts> complex_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> op_names_;
  std::vector<Value*> state_inputs_;  // by position in Program::states
  struct Refusal {
    const Node* node;
    RefusalKind kind;
    std::string why;
  };
  std::vector<Refusal> refusals_;
};

// Imports one node. The target is a row's name without overload and without the underscore of
// in-place twins.
struct ImportRow {
  const char* op;
  void (*import)(Importer&, const Node&);
};
std::span<const ImportRow> compute_import_rows();
std::span<const ImportRow> pointwise_import_rows();
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
std::span<const ImportRow> float_function_import_rows();
std::span<const ImportRow> order_import_rows();
std::span<const ImportRow> place_import_rows();
std::span<const ImportRow> pool_index_import_rows();
std::span<const ImportRow> loss_import_rows();
std::span<const ImportRow> count_import_rows();
std::span<const ImportRow> unique_import_rows();
// of nodes that read or give complex numbers
std::span<const ImportRow> complex_import_rows();

// repeat_interleave by a number.
void import_equal_repeats(Importer& importer, const Node& node);
// Whether the node's row may give sizes that only a run decides: nonzero, a mask as an index.
bool counts_when_run(const Node& node);

// What rows of one file leave to another one.
// where(condition) alone.
bool is_nonzero_by_where(const Node& node);
// nonzero, a tensor of indices for each dimension.
void import_nonzero_by_dimension(Importer& importer, const Node& node);
// The argument `indices`: a tensor for each dimension, or a mask for several; null: none.
std::vector<Value*> index_values(const Node& node);
// index by masks among tensors of indices.
void import_index_by_mask(Importer& importer, const Node& node, int x,
                          const std::vector<int>& indices);
// A function of the op `binary`, of self and other or exponent.
void import_binary_function(Importer& importer, const Node& node, const char* function);
void import_clamp_tensors(Importer& importer, const Node& node);
// argmax or argmin of self along dim, as `value`.
void import_arg_reduce(Importer& importer, const Node& node, const char* function, Value* value);
// max_pool, adaptive too, of fixed sizes: values and where they are.
void import_pool_with_indices(Importer& importer, const Node& node);
// mode: reflect, replicate, circular.
void import_borders(Importer& importer, const Node& node, std::string_view mode);
// batch_norm by the statistics of its input, and what they make of the running ones.
void import_own_statistics(Importer& importer, const Node& node);
// Where the second and third result of a norm are used: mean and 1 / sqrt(variance + eps) of x over
// its last dimensions.
void import_norm_statistics(Importer& importer, const Node& node, int x, int64_t dims);
// addmm with alpha or beta.
void import_scaled_addmm(Importer& importer, const Node& node);
// stft.cpp: a complex64 or real spectrogram, and the signal of one.
void import_stft(Importer& importer, const Node& node);
void import_istft(Importer& importer, const Node& node);
// An op of any name for which a kernel is registered (custom_kernel.h).
void import_custom(Importer& importer, const Node& node);

// Why keep_whole() cannot take the node, "" when it can.
std::string find_part_missing(const Node& node);
// Emits the node as an op of kind "aten", for the backend torch. Returns why it cannot, else "".
std::string keep_whole(Importer& importer, const Node& node);

// Throws Error when a size of the value is symbolic.
std::vector<int64_t> static_shape(const Value& value);
// literals.cpp: an argument that is the literal of an int or a bool.
std::optional<int64_t> find_whole(const Node& node, std::string_view name);
// A literal argument without dimensions: i64 where the node's result is of integers, f64 where it
// is of f64, else f32.
Tensor literal_operand(const Node& node, std::string_view name);
// A literal argument as an attribute: an int64_t where a double would round it, else a double.
Attribute literal_attribute(const Node& node, std::string_view name, double fallback);
// The size of a dimension of a tensor when it is fixed; refuses the node otherwise.
std::optional<int64_t> fixed_size(Importer& importer, const Node& node, int x, size_t dim);
// One number repeated when a list of `count` is wanted.
std::vector<int64_t> repeated(std::vector<int64_t> values, size_t count);
int64_t positive_dim(int64_t dim, size_t rank);
inline bool is_complex(DType dtype) {
  return dtype != DType::kBool && !is_integer(dtype) && !is_floating_point(dtype);
}

}  // namespace octet
