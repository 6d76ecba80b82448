// Emits ops that read or write int16 activations, which backends/kernels runs.
#include "backends/kernels/int16_ops.h"
#include "backends/onednn/builder/conversions.h"
#include "backends/onednn/emit/emitters.h"

namespace octet::onednn {
namespace {

// The order in which the op reads an input that is kept as `kept`.
Dims order_read(Int16Order order, const Stored& kept) {
  switch (order) {
    case Int16Order::kChannelsLast: return channels_last(kept.shape);
    case Int16Order::kRows: return row_major(kept.shape);
    case Int16Order::kDense: return dense_like(kept.shape, kept.strides);
  }
  return {};
}

}  // namespace

void emit_int16(SegmentBuilder& builder, const ProgramOp& op) {
  const Int16Order order = int16_order(op);
  const Dims& shape = builder.tensor(op.outputs[0]).shape;
  std::vector<Int16Place> inputs;
  std::vector<Place> places;
  Dims largest;  // the order of the input with y's shape
  for (size_t i : int16_inputs(op)) {
    const Stored kept = builder.read(op.inputs[i]);
    const QuantParams read = kept.quant_params == kBfloat16 ? QuantParams{} : kept.quant_params;
    const Stored x = convert(builder, kept, read, order_read(order, kept));
    inputs.push_back({real_form_of(read), x.strides});
    places.push_back(x.place);
    if (largest.empty() && x.shape == shape) largest = x.strides;
  }
  const bool keeps_order = order == Int16Order::kDense && !largest.empty();
  const Stored y = builder.allocate(shape, builder.output_quant_params(op.outputs[0]),
                                    keeps_order                          ? largest
                                    : order == Int16Order::kChannelsLast ? channels_last(shape)
                                                                         : row_major(shape));
  // proving packs no weights, and nothing else can be refused
  if (builder.purpose() == SegmentBuilder::Purpose::kRun)
    add_kernel(
        builder, "int16",
        Int16Kernel(builder.program(), op, inputs, {real_form_of(y.quant_params), y.strides}),
        std::move(places), y.place);
  builder.define(op.outputs[0], y);
}

}  // namespace octet::onednn
