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

// The program, quantized or not, as ONNX's operators at `opset`, which is in [kLeastOpset,
// kGreatestOpset]; without one at the least that has all that the program needs. Scales stay in
// QuantizeLinear and DequantizeLinear. Throws Error that names every op without a form.
OnnxModel to_onnx(const Graph& graph, std::optional<int64_t> opset = std::nullopt);

}  // namespace octet
