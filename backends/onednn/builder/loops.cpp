// Chooses the loop, or oneDNN's reorder, and adds it.
#include "backends/onednn/builder/loops.h"

#include "backends/onednn/kernels/byte_loops.h"
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
  if (!a.is_integer()) {
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
  if (!is_own_copy(from, to)) {
    try {
      const dnnl::reorder::primitive_desc desc(cpu_engine(), from.desc(), cpu_engine(), to.desc(),
                                               new_attributes());
      builder.add_primitive(
          "reorder", desc,
          {{DNNL_ARG_FROM, from.desc(), from.place}, {DNNL_ARG_TO, to.desc(), to.place}});
      return;
    } catch (const dnnl::error&) {
    } catch (const Refusal&) {
    }
  }
  builder.add_loop("copy", copy_loop(from, to), {from.place, to.place});
}

void add_fill(SegmentBuilder& builder, const Stored& to, double real) {
  builder.add_loop("fill", fill_loop(to, real), {to.place});
}

}  // namespace octet::onednn
