// How the rows write a node's ONNX form: a step is one ONNX node, named by its result.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "tools/onnx/exporter.h"

namespace octet {

using Names = std::vector<std::string>;

class OnnxSteps {
 public:
  OnnxSteps(OnnxExporter& exporter, const Node& node) : exporter(exporter), node(node) {}

  // Adds an ONNX node; the name of its result, or of its results.
  std::string op(const char* type, Names inputs, OnnxAttributes attributes = {});
  Names ops(const char* type, size_t results, Names inputs, OnnxAttributes attributes = {});

  // The value behind the first of these arguments that is there; null when none is.
  Value* value(std::initializer_list<const char*> names) const;
  // Its name in the model; "" when there is none.
  std::string input(std::initializer_list<const char*> names);
  std::string input(const char* name) { return input({name}); }
  // self or input.
  Value* self() const { return value({"self", "input"}); }
  std::string x() { return input({"self", "input"}); }
  // The argument as a tensor of this dtype: a value, cast when it has another; a number, as one
  // without dimensions. "" when absent or None.
  std::string operand(const char* name, DType dtype);
  std::string cast(Value* value, DType dtype);
  std::string cast(const std::string& name, DType dtype);

  // What the export recorded. Throws Error when it recorded nothing.
  static const TensorMeta& meta(const Value* value);
  static DType dtype(const Value* value) { return meta(value).dtype; }
  static size_t rank(const Value* value) { return meta(value).sizes.size(); }
  Value* result() const { return node.outputs().front(); }
  // A dimension's number from the front; `value` gives the rank. Throws Error on others.
  size_t dim_of(const Value* value, int64_t dim) const;
  // The size of a dimension when it is fixed; refuses the node otherwise.
  std::optional<int64_t> fixed_size(const Value* value, size_t dim);
  // All sizes; refuses the node when one is open.
  std::optional<std::vector<int64_t>> fixed_shape(const Value* value);

  // Constants. number: without dimensions.
  std::string number(double value, DType dtype) { return exporter.number(value, dtype); }
  std::string number(double value) { return number(value, dtype(result())); }
  std::string ints(const std::vector<int64_t>& values) { return exporter.ints(values); }
  std::string constant(const std::string& name, Tensor data);
  std::string filled(double value, const std::vector<int64_t>& shape, DType dtype);

  // An int argument, or a list of them, that may be open: i64 of one dimension. `minus_one`: what
  // stands for -1.
  std::string size(const char* name, int64_t fallback);
  std::string sizes(const char* name, int64_t minus_one = -1);
  // The sizes of a value as it runs, or one of them.
  std::string shape(const std::string& name) { return op("Shape", {name}); }
  std::string shape(const std::string& name, size_t dim);
  // The elements of `name` in the shape of `like`, whose sizes were recorded.
  std::string reshaped(const std::string& name, const Value* from, const Value* like);

  std::string add(const std::string& a, const std::string& b) { return op("Add", {a, b}); }
  std::string sub(const std::string& a, const std::string& b) { return op("Sub", {a, b}); }
  std::string mul(const std::string& a, const std::string& b) { return op("Mul", {a, b}); }
  std::string div(const std::string& a, const std::string& b) { return op("Div", {a, b}); }
  std::string unsqueeze(const std::string& name, std::vector<int64_t> axes);
  std::string squeeze(const std::string& name, std::vector<int64_t> axes);
  std::string transpose(const std::string& name, std::vector<int64_t> dims);
  std::string reshape(const std::string& name, const std::vector<int64_t>& shape);
  // One of ReduceSum, ReduceMean, ReduceMax, ...; no axes: all.
  std::string reduce(const char* type, const std::string& name, const std::vector<int64_t>& axes,
                     bool keepdim);

  // The node's first result, or this value.
  void give(const std::string& name) { exporter.give(result(), name); }
  void give(const Value* value, const std::string& name) { exporter.give(value, name); }
  void refuse(const std::string& why) { exporter.refuse(node, why); }

  std::string text(const char* name) const;  // "" when absent or None
  bool has(const char* name) const;          // and not None
  // The values of a list of tensors; null: None.
  std::vector<Value*> list(const char* name) const;

  OnnxExporter& exporter;
  const Node& node;
};

// One number repeated when a list of `count` is wanted.
std::vector<int64_t> as_many(std::vector<int64_t> values, size_t count);

}  // namespace octet
