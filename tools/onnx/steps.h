// Writes one Program op: each step adds an ONNX node and returns the name of its result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/onnx/writer.h"

namespace octet {

class OnnxSteps {
 public:
  OnnxSteps(OnnxWriter& writer, const ProgramOp& source) : writer(writer), source(source) {}

  // ---- the op's tensors, by position
  const Program& program() const { return writer.scope().program; }
  bool has(size_t i) const { return source.has_input(i); }
  const ProgramTensor& in(size_t i = 0) const { return program().input(source, i); }
  const ProgramTensor& out(size_t i = 0) const { return program().output(source, i); }
  size_t rank(size_t i = 0) const { return in(i).shape.size(); }
  DType dtype() const { return out().dtype; }
  // The tensor's name in the model; "" if absent. `dtype`: casts if the tensor has another dtype.
  std::string x(size_t i = 0);
  std::string x(size_t i, DType dtype);
  // The op that makes an input if it has that kind; else null.
  const ProgramOp* producer(size_t i, const char* kind) const;
  const ProgramTensor* find_constant(size_t i) const;  // null if computed or absent

  // ---- attributes
  int64_t dim(size_t rank) const;  // in [0, rank)
  // The attribute "dims"; all dimensions of the first input if it is missing.
  std::vector<int64_t> dims() const;

  // ---- nodes
  std::string op(const char* type, Names inputs, OnnxAttributes attributes = {}) {
    return ops(type, 1, std::move(inputs), std::move(attributes))[0];
  }
  Names ops(const char* type, size_t results, Names inputs, OnnxAttributes attributes = {}) {
    return writer.emit(source, type, std::move(inputs), std::move(attributes), results);
  }
  std::string add(const std::string& a, const std::string& b) { return op("Add", {a, b}); }
  std::string sub(const std::string& a, const std::string& b) { return op("Sub", {a, b}); }
  std::string mul(const std::string& a, const std::string& b) { return op("Mul", {a, b}); }
  std::string div(const std::string& a, const std::string& b) { return op("Div", {a, b}); }
  std::string cast(const std::string& name, DType dtype);
  std::string unsqueeze(const std::string& name, std::vector<int64_t> axes);
  std::string squeeze(const std::string& name, std::vector<int64_t> axes);
  std::string transpose(const std::string& name,
                        std::vector<int64_t> dims);  // unchanged if in order
  std::string reshape(const std::string& name, const std::vector<int64_t>& shape);
  std::string concat(Names parts, int64_t axis);
  std::string slice(const std::string& name, const std::string& start, const std::string& end,
                    int64_t dim, int64_t step = 1);
  // type: ReduceSum, ReduceMean, ReduceMax, ...; without axes, over all dimensions.
  std::string reduce(const char* type, const std::string& name, const std::vector<int64_t>& axes,
                     bool keepdim);

  // ---- constants
  std::string number(double value, DType dtype) { return writer.number(value, dtype); }
  std::string number(double value) { return number(value, dtype()); }
  std::string ints(const std::vector<int64_t>& values) { return writer.ints(values); }
  std::string constant(const std::string& name, Tensor data) {
    return writer.add_initializer(source.name + "_" + name, std::move(data));
  }
  std::string floats(const std::string& name, const std::vector<int64_t>& shape,
                     const std::vector<float>& values);
  std::string filled(double value, const std::vector<int64_t>& shape, DType dtype);

  // ---- sizes, as 1-dimensional i64
  std::string size(const SizeExpr& size) { return writer.size(size, "%" + source.name); }
  std::string sizes(const std::vector<SizeExpr>& sizes);
  // An integer attribute, which may be a formula.
  SizeExpr size_attribute(const attr::Integer& key) const;
  std::string shape(const std::string& name) { return op("Shape", {name}); }
  std::string shape(const std::string& name, size_t dim);
  // Reshapes `name`, which has the shape of `from`, to the shape of `like`.
  std::string reshaped(const std::string& name, const ProgramTensor& from,
                       const ProgramTensor& like);

  // ---- results
  void give(const std::string& name) { give(0, name); }
  void give(size_t i, const std::string& name) { writer.give(source.outputs[i], name); }
  void refuse(const std::string& why) { writer.refuse(source, why); }
  bool need(int64_t opset, const std::string& what) { return writer.need(source, opset, what); }

  OnnxWriter& writer;
  const ProgramOp& source;
};

// The sizes of a tensor as formulas.
std::vector<SizeExpr> sizes_of(const ProgramTensor& tensor);
// 0, 1, 2, ...
std::vector<int64_t> counted(size_t count);

// Converts scales and zero points to the form of ONNX's QuantizeLinear and DequantizeLinear, and
// products of quantized tensors. Used only by tools/onnx/*.cpp.

// real = scale * (integer - zero_point)
struct OnnxQParams {
  std::vector<float> scale;
  std::vector<int64_t> zero_point;  // as many
  // {}: one scale; {n}: one per slice along `axis`; with the rank of the tensor: one per block of
  // `block` elements along `axis`
  std::vector<int64_t> shape;
  int64_t axis = 0;
  int64_t block = 0;
  DType dtype = DType::kInt8;  // dtype of the integers

  bool is_per_tensor() const { return shape.empty(); }
  bool is_blocked() const { return shape.size() > 1; }
};

// The qparams of an integer constant; nullopt if ONNX cannot express them: blocks along several
// dimensions, or zero points that are not integers of the dtype.
std::optional<OnnxQParams> find_qparams(const StoredConstant& stored);
// The integers and scales of a weight that is stored as integers; nullopt for other inputs.
std::optional<StoredConstant> find_stored_weight(const OnnxSteps& s, size_t input);
// Its name in the exported program.
std::string weight_name(const OnnxSteps& s, size_t input);
// The scale and zero point of an input that a dequantize makes, if it is per tensor.
std::optional<OnnxQParams> find_activation_qparams(const OnnxSteps& s, size_t input);

// Dequantizes the integers `name` (of qparams.dtype).
std::string dequantized(OnnxSteps& s, const std::string& name, const OnnxQParams& qparams);
// Adds the constant and the node that dequantizes it. Elements have four bits if the values allow
// it and the scales are blocked. `stored` must have qparams.
std::string dequantized(OnnxSteps& s, const std::string& name, const StoredConstant& stored);
// Adds the nodes that expand a float constant stored as integers or float16; nullopt if ONNX cannot
// express them.
std::optional<std::string> stored_name(OnnxSteps& s, const ProgramTensor& constant);

// Writes a linear layer as MatMulInteger if its input is dynamically quantized and its weight is
// constant int8. Returns false, without changes, for other inputs.
bool give_integer_linear(OnnxSteps& s);

}  // namespace octet
