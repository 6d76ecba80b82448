#include "tools/cli/compare/border.h"

#include <optional>
#include <string>
#include <unordered_set>

#include <ATen/Functions.h>

#include "core/interpreter/aten_bridge.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/rewrites.h"

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

std::unique_ptr<Graph> fold_as_lowered(const Graph& graph, const Program& program) {
  std::unordered_set<std::string> ops;
  for (const ProgramOp& op : program.ops) ops.insert(op.name);
  std::unique_ptr<Graph> copy = clone(graph);
  if (computes_in_half(*copy)) widen_half(*copy);
  fold_conv_bn(*copy, {.only = [&](const Node& node) { return !ops.contains(node.name()); }});
  return copy;
}

}  // namespace octet
