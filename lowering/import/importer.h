// The state of one import and what the rows of its tables call. Used by import_*.cpp only.
#pragma once

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/program/program.h"

namespace octet {

// A shape whose sizes are numbers or formulas of shape symbols.
struct Sizes : std::vector<SizeExpr> {
  using std::vector<SizeExpr>::vector;
  Sizes(const std::vector<SizeExpr>& sizes) : std::vector<SizeExpr>(sizes) {}
  Sizes(const std::vector<int64_t>& numbers)
      : std::vector<SizeExpr>(numbers.begin(), numbers.end()) {}
};

class Importer {
 public:
  explicit Importer(const Graph& graph);
  // Imports every node. Throws Error that names all ops without a row.
  Program run();

  const Graph& graph() const { return graph_; }
  Program& program() { return program_; }

  // The tensor of a Value; of an argument: -1 when absent or None. A literal argument becomes a
  // 0-dimensional constant of dtype f32.
  int tensor_of(Value* value);
  int operand(const Node& node, std::string_view name);
  const ProgramTensor& tensor(int index) const { return program_.tensor(index); }
  Sizes sizes(int index) const;
  std::vector<int64_t> input_shape(const Node& node, std::string_view name) {
    return tensor(operand(node, name)).shape;
  }

  // Shape of a value by its meta. Throws Error when it has none, or a size that the inputs' sizes
  // do not decide.
  Sizes sizes_of(const Value& value) const;
  // An int argument, or list of them, that may be symbolic.
  SizeExpr size_argument(const Node& node, const char* name, int64_t fallback) const;
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
  // `value` is the same as an existing tensor.
  void alias(Value* value, int tensor);
  int add_constant(const std::string& name, Tensor data, std::optional<TensorQParams> qparams = {});
  int add_tensor(ProgramTensor tensor);  // makes the name unique
  int add_intermediate(const std::string& name, DType dtype, const Sizes& sizes);

  // Stops here with Error("lower", node, what).
  [[noreturn]] void fail(const Node& node, const std::string& what) const;
  // Notes that this call of a known op cannot be expressed; the import goes on and fails at its
  // end.
  void refuse(const Node& node, const std::string& why);

 private:
  void import_inputs();
  void declare_symbols();
  void import_node(const Node& node);
  void import_outputs();
  void check_in_place(const Node& node) const;
  void stand_in(const Node& node);  // results of a refused node, so that the import can go on

  const Graph& graph_;
  Program program_;
  SymbolValues hints_;
  std::unordered_map<const Value*, int> tensors_;
  std::unordered_set<std::string> names_;
  struct Refusal {
    const Node* node;
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
// An op of any name for which a kernel is registered (custom_kernel.h).
void import_custom(Importer& importer, const Node& node);

// Throws Error when a size of the value is symbolic.
std::vector<int64_t> static_shape(const Value& value);
// One number repeated when a list of `count` is wanted.
std::vector<int64_t> repeated(std::vector<int64_t> values, size_t count);
int64_t positive_dim(int64_t dim, size_t rank);

}  // namespace octet
