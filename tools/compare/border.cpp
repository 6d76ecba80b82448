#include "tools/compare/border.h"

#include <utility>

#include <ATen/Functions.h>

#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

at::Tensor quantized(const at::Tensor& x, const QuantizedIoTensor& to) {
  return x.to(at::kFloat)
      .mul(1.0 / to.scale)
      .round()
      .add(to.zero_point)
      .clamp(to.quant_min, to.quant_max)
      .to(to_scalar_type(to.dtype));
}

}  // namespace

QuantizedIo give_float_border(Graph& graph) {
  QuantizedIo io = read_quantized_io(graph);
  restore_float_io(graph, io);
  return io;
}

BatchSource with_integers(BatchSource data, QuantizedIo io) {
  if (io.inputs.empty()) return data;
  return [data = std::move(data),
          io = std::move(io)]() mutable -> std::optional<std::vector<c10::IValue>> {
    std::optional<std::vector<c10::IValue>> batch = data();
    if (!batch) return batch;
    for (const QuantizedIoTensor& to : io.inputs) {
      if (to.index >= batch->size() || !(*batch)[to.index].isTensor()) continue;
      const at::Tensor x = (*batch)[to.index].toTensor();
      if (x.is_floating_point()) (*batch)[to.index] = quantized(x, to);
    }
    return batch;
  };
}

}  // namespace octet
