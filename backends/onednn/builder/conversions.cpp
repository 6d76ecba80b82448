// A conversion changes the order, the type and scale, or both in two steps.
#include "backends/onednn/builder/conversions.h"

#include "backends/kernels/int16_elements.h"
#include "backends/onednn/kernels/loops.h"
#include "backends/onednn/library.h"
#include "core/base/error.h"

namespace octet::onednn {

void add_table(SegmentBuilder& builder, const Stored& from, const Stored& to,
               const std::function<double(double)>& function) {
  builder.add_loop("table", table_loop(from, to, function), {from.place, to.place});
}

void add_quantize(SegmentBuilder& builder, const Stored& from, const Stored& to,
                  const StepRange& range) {
  builder.add_loop("quantize", quantize_loop(from.numel(), to.quant_params, range),
                   {from.place, to.place});
}

void add_requantize(SegmentBuilder& builder, const Stored& from, const Stored& to) {
  const QuantParams& a = from.quant_params;
  const QuantParams& b = to.quant_params;
  if (a.type == kS16 || b.type == kS16) {
    Int16Map map;
    map.count = from.numel();
    map.x = real_form_of(a);
    map.y = real_form_of(b);
    map.limits.least = b.lowest();
    map.limits.most = b.highest();
    add_kernel(builder, "requantize", std::move(map), {from.place}, to.place);
  } else if (!a.is_integer()) {
    OCTET_ASSERT(b.is_integer(), "a change from float to float");
    add_quantize(builder, from, to, {b.lowest(), b.highest()});
  } else if (b.is_integer() && a.scale == b.scale &&
             a.zero_point - a.lowest() == b.zero_point - b.lowest()) {
    builder.add_loop("shift", shift_loop(from.numel()), {from.place, to.place});
  } else if (!b.is_integer()) {
    builder.add_loop("dequantize", dequantize_loop(from.numel(), a), {from.place, to.place});
  } else {
    add_table(builder, from, to, [](double real) { return real; });
  }
}

void add_copy(SegmentBuilder& builder, const Stored& from, const Stored& to) {
  const bool is_same_type = from.quant_params.type == to.quant_params.type;
  const bool is_words = is_same_type && from.quant_params.type == kS16;
  if (!is_words && (!is_same_type || !is_custom_copy(from, to))) {
    try {
      const dnnl::reorder::primitive_desc desc(cpu_engine(), from.desc(), cpu_engine(), to.desc(),
                                               new_attributes());
      builder.add_primitive(
          "reorder", desc,
          {{DNNL_ARG_FROM, from.desc(), from.place}, {DNNL_ARG_TO, to.desc(), to.place}});
      return;
    } catch (const dnnl::error&) {  // oneDNN has no reorder between these orders
    }
  }
  if (!is_same_type) throw Refusal{"oneDNN has no reorder between these types"};
  builder.add_loop("copy", copy_loop(from, to), {from.place, to.place});
}

void add_fill(SegmentBuilder& builder, const Stored& to, double real) {
  builder.add_loop("fill", fill_loop(to, real), {to.place});
}
namespace {

// Adds one step if only the order, or only type and scale change, else two. oneDNN 3.2's reorder
// computes wrong values for some shapes when it changes the order and applies zero points, so here
// it only changes the order.
void add_reorder(SegmentBuilder& builder, const Stored& from, const Stored& to) {
  const bool are_floats = !from.quant_params.is_integer() && !to.quant_params.is_integer();
  if (from.quant_params == to.quant_params || are_floats) {
    add_copy(builder, from, to);
    return;
  }
  const bool is_from_dense = is_dense(from.shape, from.strides);
  if (is_from_dense && same_strides(from.shape, from.strides, to.strides)) {
    add_requantize(builder, from, to);
    return;
  }
  // move the smaller elements
  const bool moves_first =
      !is_from_dense || bytes_of(from.quant_params.type) < bytes_of(to.quant_params.type);
  const Stored middle = moves_first ? builder.allocate(from.shape, from.quant_params, to.strides)
                                    : builder.allocate(from.shape, to.quant_params, from.strides);
  if (moves_first) {
    add_copy(builder, from, middle);
    add_requantize(builder, middle, to);
  } else {
    add_requantize(builder, from, middle);
    add_copy(builder, middle, to);
  }
}

}  // namespace

Stored convert(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params,
               const Dims& strides) {
  if (from.quant_params == quant_params && same_strides(from.shape, from.strides, strides))
    return {from.place, quant_params, from.shape, strides};
  for (const Conversion& known : builder.conversions())
    if (known.from.place == from.place && known.from.shape == from.shape &&
        known.from.strides == from.strides && known.from.quant_params == from.quant_params &&
        known.to.quant_params == quant_params &&
        same_strides(from.shape, known.to.strides, strides))
      return {known.to.place, quant_params, from.shape, strides};
  const Stored to = builder.allocate(from.shape, quant_params, strides);
  add_reorder(builder, from, to);
  builder.conversions().push_back({from, to});
  return to;
}

Stored to_dense(SegmentBuilder& builder, const Stored& from, const QuantParams& quant_params) {
  return convert(builder, from, quant_params, dense_like(from.shape, from.strides));
}

Stored to_real(SegmentBuilder& builder, int index, const Dims& strides) {
  return convert(builder, builder.read(index), QuantParams{}, strides);
}

void finish_outputs(SegmentBuilder& builder) {
  const std::vector<int>& outputs = builder.segment().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Dims& shape = builder.tensor(outputs[i]).shape;
    const Stored kept = builder.read(outputs[i]);
    const QuantParams quant_params = builder.declared_quant_params(outputs[i]);
    const int position = static_cast<int>(i);
    if (kept.quant_params == quant_params && same_strides(shape, kept.strides, row_major(shape)) &&
        builder.place_in_output(kept, position))
      continue;
    add_reorder(builder, kept,
                builder.add_external(BufferKind::kOutput, shape, quant_params, position));
  }
}

}  // namespace octet::onednn
