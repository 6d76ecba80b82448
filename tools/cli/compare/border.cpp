#include "tools/cli/compare/border.h"

#include <optional>
#include <utility>

#include <ATen/Functions.h>

#include "core/interpreter/aten_bridge.h"

namespace octet {
namespace {

using Values = std::vector<c10::IValue>;

at::Tensor quantized(const at::Tensor& x, const QuantizedIoTensor& to) {
  return x.to(at::kFloat)
      .mul(1.0 / to.scale)
      .round()
      .add(to.zero_point)
      .clamp(to.quant_min, to.quant_max)
      .to(to_scalar_type(to.dtype));
}

at::Tensor dequantized(const at::Tensor& x, const QuantizedIoTensor& from) {
  return x.to(at::kFloat).sub(from.zero_point).mul(from.scale);
}

std::optional<at::Tensor> find_tensor(const Values& values, size_t index) {
  return index < values.size() && values[index].isTensor() ? std::optional(values[index].toTensor())
                                                           : std::nullopt;
}

std::vector<QuantizedIoTensor> integers_of(const Program& program, const std::vector<int>& border) {
  std::vector<QuantizedIoTensor> integers;
  for (size_t i = 0; i < border.size(); ++i) {
    if (border[i] < 0) continue;
    const ProgramTensor& tensor = program.tensor(border[i]);
    if (!tensor.qparams || !tensor.qparams->is_per_tensor()) continue;
    const IntegerRange range = integer_range(tensor.dtype);
    integers.push_back({i, tensor.name, tensor.qparams->scale.front(),
                        tensor.qparams->zero_point.front(), range.min, range.max, tensor.dtype});
  }
  return integers;
}

}  // namespace

QuantizedIo give_float_border(Graph& graph) {
  QuantizedIo io = read_quantized_io(graph);
  restore_float_io(graph, io);
  return io;
}

QuantizedIo quantized_io_of(const Program& program) {
  return {integers_of(program, program.inputs), integers_of(program, program.outputs)};
}

Values with_integers(Values batch, const QuantizedIo& io) {
  for (const QuantizedIoTensor& to : io.inputs) {
    const std::optional<at::Tensor> x = find_tensor(batch, to.index);
    if (x && x->is_floating_point()) batch[to.index] = quantized(*x, to);
  }
  return batch;
}

Values with_reals(Values values, const std::vector<QuantizedIoTensor>& integers) {
  for (const QuantizedIoTensor& from : integers) {
    const std::optional<at::Tensor> x = find_tensor(values, from.index);
    if (x && x->scalar_type() == to_scalar_type(from.dtype))
      values[from.index] = dequantized(*x, from);
  }
  return values;
}

}  // namespace octet
