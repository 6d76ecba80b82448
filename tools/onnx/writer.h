// Holds the state of one export: the ONNX name of each tensor of a Program, and the nodes so far.
// The rows in tools/onnx/*.cpp write one Program op each, through OnnxSteps (steps.h).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"
#include "lowering/program/program.h"
#include "tools/onnx/export.h"
#include "tools/onnx/model.h"

namespace octet {

using Names = std::vector<std::string>;

// The result of dynamic quantization: u8 in the tensor's shape, or [rows, length].
struct OnnxDynamic {
  std::string integers, scale, zero_point;  // scale: f32; zero_point: u8; one, or one per row
  bool is_rows = false;
};

// A program or a body while its ops are written.
struct OnnxScope {
  OnnxScope(const Program& program, OnnxScope* outer);

  const Program& program;
  OnnxScope* outer;                         // scope of the op that runs the body; null: none
  Names names;                              // by tensor; "": not written yet
  std::map<int, OnnxDynamic> dynamic;       // by result of fake_quantize_dynamic
  std::vector<const ProgramOp*> producers;  // by tensor
  std::vector<std::vector<const ProgramOp*>> users;  // by tensor
  std::vector<bool> is_result;                       // by tensor: an output or a state's next value
};

class OnnxWriter {
 public:
  // graph: what the program was imported from; names are taken from it.
  OnnxWriter(const Graph& graph, const Program& program, const OnnxOptions& options);
  // Writes every op. Throws an Error that names all ops that ONNX cannot express.
  OnnxModel run();
  // After run() threw: the opset that could express the program, 0 if none can.
  int64_t wanted_opset() const { return has_refusals_ ? 0 : wanted_opset_; }

  int64_t opset() const { return model_.opset; }
  bool has_integer_biases() const { return has_integer_biases_; }
  OnnxScope& scope() { return *scope_; }

  // The ONNX name of a tensor. A constant becomes an initializer on first use.
  std::string name_of(int tensor);
  // Makes `name` the ONNX name of `tensor`. If the newest node made it, the result is renamed after
  // the tensor.
  void give(int tensor, const std::string& name);
  // The name of a constant in the model: the path of the parameter or buffer.
  std::string constant_name(const std::string& tensor) const;
  // Add an initializer under a unique name.
  std::string add_initializer(const std::string& name, Tensor data);
  std::string add_initializer(const std::string& name, OnnxType type, std::vector<int64_t> shape,
                              Tensor data);
  // Shared constants; `number` has no dimensions.
  std::string number(double value, DType dtype);
  std::string ints(const std::vector<int64_t>& values);
  std::string fresh_name(const std::string& base);
  // Computes a size, as i64 of one element. subject: of the Error if no input gives a symbol.
  std::string size(const SizeExpr& size, const std::string& subject);

  // Adds a node for `op` with new results, each named after the op.
  Names emit(const ProgramOp& op, std::string type, Names inputs, OnnxAttributes attributes,
             size_t results);
  // Makes a body of If, Loop or Scan; `fill` adds its nodes, inputs and outputs.
  std::shared_ptr<OnnxGraph> body(const std::function<void(OnnxGraph&)>& fill);
  // Inlines a body on these inputs; returns the names of its results.
  Names write_body(const Program& program, const Names& inputs);
  // Adds an output under a new name to the innermost graph.
  void add_output(OnnxGraph& graph, const ProgramTensor& tensor, const std::string& value);

  // Records that ONNX cannot express this op. The export continues and fails at its end. `why`
  // follows the op's name in the message.
  void refuse(const ProgramOp& op, const std::string& why);
  // Whether the opset is at least `opset`; otherwise records a refusal. what: "int4 in blocks".
  bool need(const ProgramOp& op, int64_t opset, const std::string& what);

 private:
  // borders.cpp
  void add_inputs();
  void add_outputs();
  void add_result(OnnxValue value, const std::string& name);
  [[noreturn]] void fail() const;

  void add_op(const ProgramOp& op);
  void add_ops(const Program& program);
  const Node* find_node(const ProgramOp& op) const;
  std::string module_of(const ProgramOp& op) const;
  std::string target_of(const ProgramOp& op) const;
  void add_node(OnnxNode node);  // makes its name unique
  std::string size_node(const char* type, Names inputs, OnnxAttributes attributes = {});
  std::string symbol(const std::string& name, const std::string& subject);

  const Graph& source_;
  const bool has_integer_biases_;
  OnnxModel model_;
  OnnxGraph* graph_ = &model_;  // receives new nodes
  OnnxScope top_;
  OnnxScope* scope_ = &top_;
  std::unordered_map<std::string, const Node*>
      nodes_;  // nodes of the graph and its bodies, by name
  std::unordered_map<std::string, std::string>
      paths_;  // paths of constants, by their values' names
  std::unordered_set<std::string> names_, node_names_, output_names_;
  std::unordered_set<std::string> given_;  // names that tensors already have
  std::map<std::string, std::string> numbers_;
  std::map<std::vector<int64_t>, std::string> ints_;
  std::map<std::pair<const void*, std::string>, std::string> stored_;  // initializers, by bytes
  struct Refusal {
    std::string target, name, why;  // why: "" if ONNX lacks the op
  };
  std::vector<Refusal> refusals_;
  bool has_refusals_ = false;  // that no opset solves
  int64_t wanted_opset_ = 0;
};

// An input or output with the dtype and sizes of the tensor.
OnnxValue typed_value(const std::string& name, const ProgramTensor& tensor);

class OnnxSteps;
// Writes ops of one kind (lowering/program/program.h).
struct OnnxRow {
  const char* kind;
  void (*write)(OnnxSteps& s);
};
std::span<const OnnxRow> element_onnx_rows();
std::span<const OnnxRow> indexing_onnx_rows();
std::span<const OnnxRow> product_onnx_rows();
std::span<const OnnxRow> window_onnx_rows();
std::span<const OnnxRow> reduction_onnx_rows();
std::span<const OnnxRow> quantization_onnx_rows();
std::span<const OnnxRow> dynamic_onnx_rows();
std::span<const OnnxRow> control_onnx_rows();

}  // namespace octet
