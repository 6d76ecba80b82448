// The state of one import and what the rows of its tables call. Used by import_*.cpp only.
#pragma once

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph.h"
#include "lowering/program.h"

namespace octet {

class Importer {
 public:
  explicit Importer(const Graph& graph);
  // Imports every node. Throws Error that names all ops without a row.
  Program run();

  const Graph& graph() const { return graph_; }
  Program& program() { return program_; }

  // The tensor of a Value; of an argument: -1 when absent or None. A literal argument becomes a 0-dimensional constant of dtype f32.
  int tensor_of(Value* value);
  int operand(const Node& node, std::string_view name);
  const ProgramTensor& tensor(int index) const { return program_.tensors[static_cast<size_t>(index)]; }
  std::vector<int64_t> input_shape(const Node& node, std::string_view name) { return tensor(operand(node, name)).shape; }

  // Appends an op whose output is the node's only (or given) Value; the Value's meta gives dtype and shape.
  ProgramOp& emit(const Node& node, const std::string& kind, std::vector<int> inputs, std::map<std::string, Attribute> attributes = {});
  ProgramOp& emit_value(const Node& node, Value* value, const std::string& kind, std::vector<int> inputs,
                        std::map<std::string, Attribute> attributes = {});
  // Appends an op with several outputs, the Values' metas give dtypes and shapes.
  ProgramOp& emit_values(const Node& node, const std::vector<Value*>& values, const std::string& kind, std::vector<int> inputs,
                         std::map<std::string, Attribute> attributes = {});
  // Appends an op with an output that has no Value of its own; returns that tensor.
  int emit_step(const Node& node, const std::string& kind, std::vector<int> inputs, std::vector<int64_t> shape, DType dtype,
                std::map<std::string, Attribute> attributes = {});
  // `value` is the same as an existing tensor.
  void alias(Value* value, int tensor);
  int add_constant(const std::string& name, Tensor data, std::optional<TensorQParams> qparams = {});
  int add_tensor(ProgramTensor tensor);  // makes the name unique

  // Stops here with Error("lower", node, what).
  [[noreturn]] void fail(const Node& node, const std::string& what) const;
  // Notes that this call of a known op cannot be expressed; the import goes on and fails at its end.
  void refuse(const Node& node, const std::string& why);

 private:
  void import_inputs();
  void import_node(const Node& node);
  void import_outputs();
  void check_in_place(const Node& node) const;
  void stand_in(const Node& node);  // results of a refused node, so that the import can go on

  const Graph& graph_;
  Program program_;
  std::unordered_map<const Value*, int> tensors_;
  std::unordered_set<std::string> names_;
  struct Refusal {
    const Node* node;
    std::string why;
  };
  std::vector<Refusal> refusals_;
};

// Imports one node. The target is a row's name without overload and without the underscore of in-place twins.
struct ImportRow {
  const char* op;
  void (*import)(Importer&, const Node&);
};
std::span<const ImportRow> compute_import_rows();
std::span<const ImportRow> pointwise_import_rows();
std::span<const ImportRow> shape_import_rows();
std::span<const ImportRow> quantization_import_rows();
// An op of any name for which a kernel is registered (custom_kernel.h).
void import_custom(Importer& importer, const Node& node);

// Shape and dtype of a value; throws Error when it has none or a symbolic size.
std::vector<int64_t> static_shape(const Value& value);
// One number repeated when a list of `count` is wanted.
std::vector<int64_t> repeated(std::vector<int64_t> values, size_t count);
int64_t positive_dim(int64_t dim, size_t rank);

}  // namespace octet
