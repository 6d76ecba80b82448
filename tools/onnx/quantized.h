// Scales and zero points as the graph gives them, and as ONNX's QuantizeLinear and
// DequantizeLinear take them. Used by tools/onnx/*.cpp only.
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
  int64_t low = 0, high = 0;   // their range

  bool is_per_tensor() const { return shape.empty(); }
  bool is_blocked() const { return shape.size() > 1; }
};

// Of a quantize or dequantize node with constant scales. Nothing, with the reason in `why`, for
// those that ONNX has no form for, and when they are computed.
std::optional<OnnxQParams> find_qparams(const Node& node, std::string& why);

// A constant that is kept as integers, with the op that dequantizes it.
struct StoredWeight {
  Tensor values;  // contiguous
  OnnxQParams qparams;
};
// What `value` is dequantized from; nothing when that is no constant.
std::optional<StoredWeight> find_stored_weight(const Value* value);
// Of two dimensions, the other way round.
StoredWeight transposed(const StoredWeight& weight);

// The quantize or dequantize node behind `value` with one constant scale; null when there is none.
std::optional<OnnxQParams> find_activation_qparams(const Value* value);

// Add nodes. quantized: of reals, without limits of its own; dequantized: `name` has integers of
// qparams.dtype.
std::string quantized(OnnxSteps& s, const std::string& name, const OnnxQParams& qparams);
std::string dequantized(OnnxSteps& s, const std::string& name, const OnnxQParams& qparams);
// The constant, and the node that makes reals of it. Four bits an element where the range allows
// and the scales are those of blocks.
std::string dequantized(OnnxSteps& s, const std::string& name, const StoredWeight& weight);

bool is_dequantize(const Node& node);

}  // namespace octet
