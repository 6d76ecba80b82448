// quantize and dequantize with constant scales, as QuantizeLinear and DequantizeLinear, which
// runtimes fuse into their neighbours.
#include <fmt/format.h>

#include "lowering/import/dynamic.h"
#include "tools/onnx/dynamic.h"
#include "tools/onnx/quantized.h"

namespace octet {
namespace {

// Whether the opset has these integers and blocks.
bool has_form(OnnxSteps& s, const OnnxQParams& qparams, bool is_quantize) {
  if (qparams.is_blocked() && !s.exporter.need(s.node, 21, "scales of blocks")) return false;
  const bool is_narrow = size_of(qparams.dtype) == 1;
  if (!is_narrow && size_of(qparams.dtype) == 2 &&
      !s.exporter.need(s.node, 21, fmt::format("integers of {}", name_of(qparams.dtype))))
    return false;
  const bool is_int32 = qparams.dtype == DType::kInt32;
  for (int64_t zero : qparams.zero_point)
    if (is_int32 && zero != 0) return s.refuse("of int32 with a zero point"), false;
  if (is_narrow || size_of(qparams.dtype) == 2 || (is_int32 && !is_quantize)) return true;
  s.refuse(fmt::format("to {}", name_of(qparams.dtype)));
  return false;
}

void convert_quantize(OnnxSteps& s) {
  if (find_dynamic_origin(s.node) != nullptr) return convert_dynamic_quantize(s);
  std::string why;
  const std::optional<OnnxQParams> qparams = find_qparams(s.node, why);
  if (!qparams) return s.refuse(why);
  if (!has_form(s, *qparams, true)) return;
  std::string y = quantized(s, s.cast(s.self(), DType::kFloat32), *qparams);
  const IntegerRange range = integer_range(qparams->dtype);
  if (qparams->low > range.min || qparams->high < range.max)
    y = s.op("Clip", {y, s.number(static_cast<double>(qparams->low), qparams->dtype),
                      s.number(static_cast<double>(qparams->high), qparams->dtype)});
  s.give(y);
}

void convert_dequantize(OnnxSteps& s) {
  if (find_dynamic_origin(s.node) != nullptr) return convert_dynamic_dequantize(s);
  std::string why;
  const std::optional<OnnxQParams> qparams = find_qparams(s.node, why);
  if (!qparams) return s.refuse(why);
  if (!has_form(s, *qparams, false)) return;
  const GraphInput* input = s.exporter.graph().find_input(s.self());
  const std::optional<StoredWeight> weight = find_stored_weight(s.result());
  std::string y;
  if (weight && qparams->is_blocked())
    y = dequantized(s, input->fqn, *weight);
  else
    y = dequantized(s, s.x(), *qparams);
  const DType dtype = s.dtype(s.result());
  s.give(dtype == DType::kFloat32 ? y : s.cast(y, dtype));
}

constexpr OnnxRow kQuantizationRows[] = {
    {"quantized_decomposed.quantize_per_tensor",          convert_quantize  },
    {"quantized_decomposed.dequantize_per_tensor",        convert_dequantize},
    {"quantized_decomposed.quantize_per_channel",         convert_quantize  },
    {"quantized_decomposed.dequantize_per_channel",       convert_dequantize},
    {"quantized_decomposed.quantize_per_channel_group",   convert_quantize  },
    {"quantized_decomposed.dequantize_per_channel_group", convert_dequantize},
    {"torchao.quantize_affine",                           convert_quantize  },
    {"torchao.dequantize_affine",                         convert_dequantize},
};

}  // namespace

std::span<const OnnxRow> quantization_onnx_rows() { return kQuantizationRows; }

}  // namespace octet
