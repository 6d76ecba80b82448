// Converts a program to ONNX for `octet export`.
#pragma once

#include <optional>

#include "core/graph/graph.h"
#include "tools/onnx/model.h"

namespace octet {

inline constexpr int64_t kLeastOpset = 17;
inline constexpr int64_t kGreatestOpset = 23;

struct OnnxOptions {
  // in [kLeastOpset, kGreatestOpset]; by default the least opset that can express the program
  std::optional<int64_t> opset;
  // Whether biases of quantized convolutions become int32, too. By default only those of linear
  // layers do, because a rounded bias changes the results.
  bool has_integer_biases = false;
};

// Converts the program, quantized or not, to ONNX's operators. Scales stay in QuantizeLinear and
// DequantizeLinear. Throws an Error that names every op that ONNX cannot express.
OnnxModel to_onnx(const Graph& graph, const OnnxOptions& options = {});

}  // namespace octet
