#include "annotate/reference/representation.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "annotate/graph/control_flow.h"
#include "annotate/graph/qdq_nodes.h"
#include "annotate/reference/rules.h"
#include "core/base/error.h"
#include "core/passes/rewrites.h"

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

// Rewrites the ops of the libraries. `form` gives the result of a quantize or dequantize; null for
// one without that form.
template <typename Form>
int rewrite(Graph& graph, std::initializer_list<std::string_view> libraries,
            const std::string& name, Form form) {
  int rewrites = 0;
  for (Node* node : graph.nodes()) {
    if (std::none_of(libraries.begin(), libraries.end(),
                     [&](std::string_view library) { return node->target().starts_with(library); }))
      continue;
    Emitter emit(graph, *node, *node);
    Value* value = nullptr;
    const std::optional<Quantization> q = find_quantization(node);
    if (node->target() == "quantized_decomposed.convert_element_type.no_fuse")
      value = emit.cast(node->find_input("input"), *node->find_argument("dtype")->find<DType>());
    else if (q && (q->is_per_channel || q->has_numbers()) && q->input->meta)
      value = form(emit, *node, *q);
    if (value == nullptr)
      throw Error("convert", fmt::format("%{} ({})", node->name(), node->target()),
                  fmt::format("has no form in {}, which static quantization with a scale per "
                              "tensor or channel has; leave out --qdq, or change --mode or "
                              "--group-size",
                              name));
    graph.replace_uses(node->output(), value);
    graph.erase(*node);
    ++rewrites;
  }
  return rewrites;
}

int rewrite_natively(Graph& graph) {
  return rewrite(graph, {"quantized_decomposed.", "torchao."}, "ATen ops",
                 [](Emitter& emit, const Node& node, const Quantization& q) {
                   return is_quantize(&node) ? quantize(emit, q) : dequantize(emit, q);
                 });
}

class AffineForm {
 public:
  explicit AffineForm(Graph& graph) : graph_(graph) {}

  Value* operator()(Emitter& emit, const Node& node, const Quantization& q) {
    const std::vector<Dim>& sizes = q.input->meta->sizes;
    std::vector<int64_t> block;  // -1: the whole dimension, for sizes known at run time only
    for (const Dim& size : sizes) block.push_back(size.is_symbolic() ? -1 : size.value);
    if (q.is_per_channel)
      block.at(static_cast<size_t>(q.axis < 0 ? q.axis + std::ssize(sizes) : q.axis)) = 1;
    const auto [scale, zero_point] = q.is_per_channel ? std::pair(q.scale, q.zero_point) : pair(q);
    std::vector<NamedArgument> arguments = {
        {"input", q.input},         {"block_size", block},     {"scale", scale},
        {"zero_point", zero_point}, {"output_dtype", q.dtype}, {"quant_min", q.quant_min},
        {"quant_max", q.quant_max},
    };
    if (is_quantize(&node))
      return emit.call("torchao.quantize_affine.default", arguments, node.output()->meta);
    arguments[4].name = "input_dtype";
    arguments.push_back(
        {"output_dtype", q.out_dtype.value_or(DType::kFloat32), ArgumentKind::kKeyword});
    return emit.call("torchao.dequantize_affine.default", arguments, node.output()->meta);
  }

 private:
  // The numbers as constants.
  std::pair<Argument, Argument> pair(const Quantization& q) {
    const float scale[] = {static_cast<float>(q.scale_number())};
    const int32_t zero_point[] = {static_cast<int32_t>(*q.zero_point.find<int64_t>())};
    std::pair<Value*, Value*>& made = made_[{scale[0], zero_point[0]}];
    if (made.first == nullptr)
      made = {constant("_scale_", Tensor::from<float>(DType::kFloat32, {1}, scale)),
              constant("_zero_point_", Tensor::from<int32_t>(DType::kInt32, {1}, zero_point))};
    return made;
  }

  Value* constant(const std::string& prefix, Tensor tensor) {
    while (graph_.constants.contains(prefix + std::to_string(next_))) ++next_;
    return graph_.add_constant(prefix + std::to_string(next_), std::move(tensor));
  }

  Graph& graph_;
  int next_ = 0;
  std::map<std::pair<float, int32_t>, std::pair<Value*, Value*>> made_;
};

}  // namespace

int to_native_qdq(Graph& graph) {
  int rewrites = rewrite_natively(graph);
  for (const Body& body : bodies_within(graph)) rewrites += rewrite_natively(*body.graph);
  remove_dead(graph);
  return rewrites;
}

int to_affine_qdq(Graph& graph) {
  for (const Body& body : bodies_within(graph))
    for (const Node* node : body.graph->nodes())
      if (is_quantize(node) || is_dequantize(node))
        throw Error("convert", fmt::format("%{} ({})", node->name(), node->target()),
                    "is in the body of a branch or loop, which cannot hold the constants of "
                    "torchao's affine ops; leave out --qdq");
  const int rewrites =
      rewrite(graph, {"quantized_decomposed."}, "torchao's affine ops", AffineForm(graph));
  remove_dead(graph);
  return rewrites;
}

}  // namespace octet
