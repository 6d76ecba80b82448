// Builds a Program: adds tensors, constants and ops under unique names, and records which tensor
// each value of the graph became.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/import/size_table.h"
#include "lowering/program/program.h"

namespace octet {

// A complex64 value as two f32 tensors of its shape. An `imaginary` of -1 means 0.
struct ComplexParts {
  int real = -1;
  int imaginary = -1;
};

// Whether values of this kind are numbers: sizes, and what is computed from sizes.
bool is_number(ValueKind kind);
DType dtype_of_number(ValueKind kind);

class ProgramBuilder {
 public:
  ProgramBuilder(const Graph& graph, const SizeTable& sizes) : graph_(graph), sizes_(sizes) {}

  Program program;

  // ---- tensors
  const ProgramTensor& tensor(int index) const { return program.tensor(index); }
  Sizes sizes(int index) const {
    return tensor(index).sizes.empty() ? Sizes(tensor(index).shape) : Sizes(tensor(index).sizes);
  }
  int add_tensor(ProgramTensor tensor);  // makes the name unique
  int add_constant(const std::string& name, Tensor data, std::optional<TensorQParams> qparams = {});
  int add_intermediate(const std::string& name, DType dtype, const Sizes& sizes);

  // ---- ops
  // Appends an op with these outputs; the values' metas give dtypes and shapes.
  ProgramOp& emit(const Node& node, const std::vector<Value*>& values, const std::string& kind,
                  std::vector<int> inputs, Attributes attributes = {});
  // Appends an op whose output has no value in the graph; returns that tensor.
  int emit_step(const Node& node, const std::string& kind, std::vector<int> inputs,
                const Sizes& sizes, DType dtype, Attributes attributes = {});
  // Sets an attribute of the last op to a size, or to a list of sizes.
  void set_size(const std::string& key, const SizeExpr& size);
  void set_sizes(const std::string& key, const Sizes& sizes);

  // ---- values of the graph
  // Throws Error for complex values, and for values whose node was not imported.
  int tensor_of(Value* value);
  // Makes `value` this tensor from here on.
  void alias(const Value* value, int tensor) { tensors_[value] = tensor; }
  // Makes `tensor` a result of the node. If the last op made the tensor, it takes the result's
  // name.
  void give(const Node& node, Value* value, int tensor);
  // The tensor of a number (SymInt, SymFloat, SymBool), which has no dimensions; -1 if it is not
  // computed yet.
  int find_number(const Value* value) const;
  void set_number(const Value* value, int tensor) { numbers_[value] = tensor; }
  std::unordered_map<const Value*, ComplexParts>& complex() { return complex_; }
  // Gives the results of a refused node tensors, so that the import can find further errors.
  void stand_in(const Node& node);

  // A position in the program. roll_back() removes the ops that a row emitted before it refused its
  // node.
  struct Mark {
    size_t ops, bodies;
  };
  Mark mark() const { return {program.ops.size(), program.bodies.size()}; }
  void roll_back(const Mark& mark, const Node& node);

  // Moves ops that compute with sizes alone to the front, so that they do not split a segment.
  void put_sizes_first();

 private:
  std::string unique_op_name(const std::string& base);

  const Graph& graph_;
  const SizeTable& sizes_;
  std::unordered_map<const Value*, int> tensors_;
  std::unordered_map<const Value*, int> numbers_;
  std::unordered_map<const Value*, ComplexParts> complex_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> op_names_;
};

}  // namespace octet
