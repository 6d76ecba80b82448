#include "annotate/reference/native_qdq.h"

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/reference/rules.h"
#include "core/base/error.h"
#include "core/passes/simplify.h"

namespace octet {
namespace {

bool is_half(const Value& value) {
  return value.meta && is_floating_point(value.meta->dtype) && size_of(value.meta->dtype) < 4;
}

// [channels] with a 1 for each dimension after the axis; numbers and None are unchanged.
Argument along_axis(Emitter& emit, const Argument& parameter, const Quantization& q) {
  Value* value = parameter.value_or_null();
  if (value == nullptr) return parameter;
  const auto rank = static_cast<int64_t>(q.input->meta->sizes.size());
  const int64_t axis = q.axis < 0 ? q.axis + rank : q.axis;
  for (int64_t d = axis + 1; d < rank; ++d) value = emit.unsqueeze_last(value);
  return value;
}

Value* quantize(Emitter& emit, const Quantization& q) {
  Value* x = is_half(*q.input) ? emit.cast(q.input, DType::kFloat32) : q.input;
  const Argument scale = along_axis(emit, q.scale, q);
  const Argument inverse = q.is_per_channel
                               ? Argument(emit.call("aten.reciprocal.default", {{"self", scale}},
                                                    scale.value_or_null()->meta))
                               : Argument(1.0 / q.scale_number());
  x = emit.round(emit.binary("mul", x, inverse));
  if (!q.zero_point.is_none()) x = emit.binary("add", x, along_axis(emit, q.zero_point, q));
  return emit.cast(emit.clamp(x, q.quant_min, q.quant_max), q.dtype);
}

Value* dequantize(Emitter& emit, const Quantization& q) {
  const DType result = q.out_dtype.value_or(DType::kFloat32);
  Value* x = emit.cast(q.input, q.is_per_channel ? DType::kFloat32 : result);
  if (!q.zero_point.is_none()) x = emit.binary("sub", x, along_axis(emit, q.zero_point, q));
  x = emit.binary("mul", x, along_axis(emit, q.scale, q));
  return x->meta && x->meta->dtype == result ? x : emit.cast(x, result);
}

// The result of the op in ATen ops; null for an op without that form.
Value* rewritten(Graph& graph, Node& node) {
  Emitter emit(graph, node, node);
  if (node.target() == "quantized_decomposed.convert_element_type.no_fuse")
    return emit.cast(node.find_input("input"), *node.find_argument("dtype")->find<DType>());
  const std::optional<Quantization> q = find_quantization(&node);
  if (!q || (q->is_per_channel ? !q->input->meta : !q->has_numbers())) return nullptr;
  return is_quantize(&node) ? quantize(emit, *q) : dequantize(emit, *q);
}

int rewrite(Graph& graph) {
  int rewrites = 0;
  for (Node* node : graph.nodes()) {
    if (!node->target().starts_with("quantized_decomposed.") &&
        !node->target().starts_with("torchao."))
      continue;
    Value* value = rewritten(graph, *node);
    if (value == nullptr)
      throw Error("convert", fmt::format("%{} ({})", node->name(), node->target()),
                  "has no form in ATen ops, which static quantization with a scale per tensor or "
                  "channel has; leave out --qdq, or change --mode or --group-size");
    graph.replace_uses(node->output(), value);
    graph.erase(*node);
    ++rewrites;
  }
  return rewrites;
}

}  // namespace

int to_native_qdq(Graph& graph) {
  int rewrites = rewrite(graph);
  for (const Body& body : bodies_within(graph)) rewrites += rewrite(*body.graph);
  remove_dead(graph);
  return rewrites;
}

}  // namespace octet
