// The state of one export and what the rows of its tables call. Used by tools/onnx/*.cpp only.
#pragma once

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/graph/graph.h"
#include "tools/onnx/export.h"
#include "tools/onnx/model.h"

namespace octet {

// What a quantize node with computed scales gives: u8 in the tensor's shape, or [rows, length].
struct OnnxDynamic {
  std::string integers, scale, zero_point;  // scale: f32; zero_point: u8; both one, or one a row
  bool is_rows = false;
};

class OnnxExporter {
 public:
  OnnxExporter(const Graph& graph, const OnnxOptions& options)
      : graph_(graph), has_integer_biases_(options.has_integer_biases) {
    model_.opset = options.opset.value_or(kLeastOpset);
  }
  // Converts every node. Throws Error that names all ops without a form.
  OnnxModel run();
  // After run() threw: the opset with which it would not have, 0 where none helps.
  int64_t wanted_opset() const { return has_refusals_ ? 0 : wanted_opset_; }

  const Graph& graph() const { return graph_; }
  int64_t opset() const { return model_.opset; }
  bool has_integer_biases() const { return has_integer_biases_; }
  OnnxModel& model() { return model_; }

  // The ONNX name of a value; a constant becomes an initializer when it is first asked for. Symbols
  // are i64 tensors of one dimension with one element.
  std::string name_of(Value* value);
  // `value` is what the model calls `name`. The result of the newest node takes the value's own
  // name.
  void give(const Value* value, const std::string& name);
  // Makes the name unique.
  std::string add_initializer(const std::string& name, Tensor data);
  std::string add_initializer(const std::string& name, OnnxType type, std::vector<int64_t> shape,
                              Tensor data);
  // Constants that many nodes share.
  std::string number(double value, DType dtype);
  std::string ints(const std::vector<int64_t>& values);
  std::string fresh_name(const std::string& base);

  // Adds a node for `node` with fresh results, each named after the node.
  const OnnxNode& emit(const Node& node, std::string op, std::vector<std::string> inputs,
                       OnnxAttributes attributes, size_t results);

  // This call has no form: the export goes on and fails at its end. `why` follows the node's name.
  void refuse(const Node& node, const std::string& why);
  // Whether the opset is at least `opset`; notes the refusal where it is not. what: "int4 in
  // blocks".
  bool need(const Node& node, int64_t opset, const std::string& what);

  std::map<const Node*, OnnxDynamic> dynamic;  // by quantize node

 private:
  void add_inputs();
  void add_node(const Node& node);
  void add_outputs();
  // What `node` wrote in place is seen through the value that it wrote to.
  void write_back(const Node& node);
  bool is_seen_otherwise(const Node& node, const Value& written);
  void stand_in(const Node& node);

  const Graph& graph_;
  const bool has_integer_biases_;
  OnnxModel model_;
  std::unordered_map<const Value*, std::string> values_;
  std::unordered_set<std::string> names_, node_names_;
  std::unordered_set<std::string> given_;  // names that a value has already
  std::map<std::string, std::string> numbers_;
  std::map<std::vector<int64_t>, std::string> ints_;
  struct Refusal {
    const Node* node;
    std::string why;  // "": of the op in whole
  };
  std::vector<Refusal> refusals_;
  bool has_refusals_ = false;  // that no opset changes
  int64_t wanted_opset_ = 0;
};

class OnnxSteps;
// Converts one node. The op is a name without overload and without the underscore of in-place
// twins.
struct OnnxRow {
  const char* op;
  void (*convert)(OnnxSteps& s);
};
// Ops that are one of ONNX's on the same operands, read as the result's dtype.
struct OnnxNameRow {
  const char* op;
  const char* onnx;
};
std::span<const OnnxRow> function_onnx_rows();
std::span<const OnnxRow> arithmetic_onnx_rows();
std::span<const OnnxRow> shape_onnx_rows();
std::span<const OnnxRow> part_onnx_rows();
std::span<const OnnxRow> indexing_onnx_rows();
std::span<const OnnxRow> filled_onnx_rows();
std::span<const OnnxRow> product_onnx_rows();
std::span<const OnnxRow> attention_onnx_rows();
std::span<const OnnxRow> window_onnx_rows();
std::span<const OnnxRow> resize_onnx_rows();
std::span<const OnnxRow> norm_onnx_rows();
std::span<const OnnxRow> reduction_onnx_rows();
std::span<const OnnxRow> quantization_onnx_rows();
std::span<const OnnxRow> dynamic_onnx_rows();
std::span<const OnnxRow> size_onnx_rows();

}  // namespace octet
