// Converts scales and zero points to the form of ONNX's QuantizeLinear and DequantizeLinear, and
// products of quantized tensors. Used only by tools/onnx/*.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/onnx/steps.h"

namespace octet {

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
