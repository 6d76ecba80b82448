// Scales and zero points as ONNX's QuantizeLinear and DequantizeLinear take them, and products of
// quantized tensors. Used by tools/onnx/*.cpp only.
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
  // {}: one scale; {n}: one for each slice along `axis`; as many dimensions as the tensor: one for
  // each block of `block` elements along `axis`
  std::vector<int64_t> shape;
  int64_t axis = 0;
  int64_t block = 0;
  DType dtype = DType::kInt8;  // of the integers

  bool is_per_tensor() const { return shape.empty(); }
  bool is_blocked() const { return shape.size() > 1; }
};

// Of a constant of integers; nothing where ONNX has no such form: scales of blocks of several
// dimensions, zero points that are no integers of the dtype.
std::optional<OnnxQParams> find_qparams(const StoredConstant& stored);
// The integers of a weight that is kept as such, with their scales; nothing for other inputs.
std::optional<StoredConstant> find_stored_weight(const OnnxSteps& s, size_t input);
// Its name in the source of the export.
std::string weight_name(const OnnxSteps& s, size_t input);
// The scale and zero point of an input that a dequantize gives, where there is one for the tensor.
std::optional<OnnxQParams> find_activation_qparams(const OnnxSteps& s, size_t input);

// Add nodes. `name` has integers of qparams.dtype.
std::string dequantized(OnnxSteps& s, const std::string& name, const OnnxQParams& qparams);
// The constant, and the node that makes reals of it. Four bits an element where the values allow
// and the scales are those of blocks. `stored` has qparams.
std::string dequantized(OnnxSteps& s, const std::string& name, const StoredConstant& stored);
// A float constant that is stored as integers or float16, as the nodes that expand it; nothing
// where ONNX has no form for it.
std::optional<std::string> stored_name(OnnxSteps& s, const ProgramTensor& constant);

// A linear layer of integers whose scale the model computes and a constant weight of int8, as
// MatMulInteger; false, with nothing done, when the inputs are not that.
bool give_integer_linear(OnnxSteps& s);

}  // namespace octet
