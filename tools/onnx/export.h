// A program as ONNX: what `octet export` does.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/graph/graph.h"
#include "tools/onnx/model.h"

namespace octet {

inline constexpr int64_t kLeastOpset = 17;
inline constexpr int64_t kGreatestOpset = 23;

struct OnnxOptions {
  // in [kLeastOpset, kGreatestOpset]; without one the least that has all that the program needs
  std::optional<int64_t> opset;
  // Biases of convolutions of integers as int32, too. Without it those of linear layers alone are:
  // a bias that is rounded makes other results than the program's.
  bool has_integer_biases = false;
};

// The program, quantized or not, as ONNX's operators. Scales stay in QuantizeLinear and
// DequantizeLinear. Throws Error that names every op without a form.
OnnxModel to_onnx(const Graph& graph, const OnnxOptions& options = {});

}  // namespace octet
