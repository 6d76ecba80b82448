#include "annotate/reference/rules.h"

#include <algorithm>

#include "annotate/graph/qdq_nodes.h"
#include "core/ops/op_schema.h"
#include "core/ops/weighted_ops.h"

namespace octet {
namespace {

// The ops that out_dtype supports; the others compute on int32 operands.
constexpr std::array<std::string_view, 3> kOutDtypeOps = {
    "aten.linear.default", "aten.conv2d.default", "aten.convolution.default"};

bool is_8_bit(const Quantization& q) { return q.dtype == DType::kInt8 || q.dtype == DType::kUInt8; }

// A static per-tensor 8-bit tensor; in torchao's form only int8.
bool is_static_tensor(const std::optional<Quantization>& q, Compat compat) {
  return q && q->has_numbers() && !q->out_dtype &&
         (compat == Compat::kTorchao ? q->dtype == DType::kInt8 : is_8_bit(*q));
}

// Weights are 8-bit, per tensor or (not in torchao's form) per output channel, which is dimension
// `axis`, with zero points 0.
bool is_weight(const Graph& graph, const std::optional<Quantization>& q, Compat compat,
               int64_t axis = 0) {
  if (!q || !is_8_bit(*q) || q->out_dtype) return false;
  if (!q->is_per_channel) return is_static_tensor(q, compat);
  const Value* zero_points = q->zero_point.value_or_null();
  return compat == Compat::kNone && q->axis == axis &&
         (q->zero_point.is_none() || (zero_points != nullptr && is_all_zero(graph, zero_points)));
}

Value* widen(Emitter& emit, Value* value, const Quantization& q) {
  Value* wide = emit.cast(emit.clamp(value, q.quant_min, q.quant_max), DType::kInt16);
  return q.is_per_channel ? wide : emit.binary("sub", wide, q.zero_point);
}

// The op's literals after the bias, by position, as far as the call or its schema has them.
std::vector<Argument> literals_after_bias(const Node& node) {
  std::vector<Argument> literals;
  const OpSchema* schema = find_op_schema(node.target());
  if (schema == nullptr) return literals;
  bool is_after = false;
  for (const SchemaArgument& argument : schema->arguments) {
    const Argument* given = node.find_argument(argument.name);
    if (is_after) literals.push_back(given != nullptr ? *given : argument.default_value);
    is_after = is_after || argument.name == "bias";
  }
  return literals;
}

// LibTorch has no integer kernel for transposed and dilated convolutions.
bool has_integer_kernel(const Node& op) {
  const std::vector<int64_t> dilation = op.ints_or("dilation", {1});
  return !is_transposed_conv(op) &&
         std::ranges::all_of(dilation, [](int64_t step) { return step == 1; });
}

// The op with other operands and no bias.
Value* call_with(Emitter& emit, const Node& op, Value* input, Value* weight, DType dtype) {
  std::vector<NamedArgument> arguments = op.arguments();
  for (NamedArgument& argument : arguments) {
    if (argument.name == "input") argument.value = emit.cast(input, dtype);
    if (argument.name == "weight") argument.value = emit.cast(weight, dtype);
    if (argument.name == "bias") argument.value = None{};
  }
  std::optional<TensorMeta> meta = op.output()->meta;
  if (meta) meta->dtype = dtype;
  return emit.call(op.target(), std::move(arguments), std::move(meta));
}

// The sum of products in int32 without bias. Without an integer kernel the integers are summed as
// float64, which represents all of them exactly.
Value* accumulate(Emitter& emit, const Node& op, Value* input, Value* weight, Compat compat) {
  const Value* output = op.output();
  if (compat == Compat::kNone && !has_integer_kernel(op))
    return emit.cast(call_with(emit, op, input, weight, DType::kFloat64), DType::kInt32);
  if (std::ranges::find(kOutDtypeOps, op.target()) != kOutDtypeOps.end()) {
    std::vector<Argument> operands = {input, weight, None{}};
    for (Argument& literal : literals_after_bias(op)) operands.push_back(std::move(literal));
    return emit.call_int32(op.target(), std::move(operands), output->meta);
  }
  return call_with(emit, op, input, weight, DType::kInt32);
}

// op(left, right) as int32: truncated in torchao's form, else rounded.
Value* to_int32(Emitter& emit, const std::string& op, Value* left, const Argument& right,
                Compat compat) {
  if (compat == Compat::kTorchao)
    return emit.call_int32("aten." + op + ".Tensor", {left, right}, left->meta);
  return emit.cast(emit.round(emit.binary(op, left, right)), DType::kInt32);
}

Value* along_channels(Emitter& emit, Value* value, int spatial) {
  for (int i = 0; i < spatial; ++i) value = emit.unsqueeze_last(value);
  return value;
}

Value* add_bias(Emitter& emit, Value* sum, Value* bias, const Argument& scale, int spatial,
                Compat compat) {
  if (bias == nullptr) return sum;
  return emit.binary("add", sum,
                     along_channels(emit, to_int32(emit, "div", bias, scale, compat), spatial));
}

Value* finish(Emitter& emit, Value* value, const Quantization& out, int64_t least) {
  value = emit.binary("add", value, out.zero_point);
  return emit.cast(emit.clamp(value, least, out.quant_max), out.dtype);
}

bool has_relu(const Match& match) {
  return std::ranges::any_of(match.nodes, [](const Node* node) { return node->is("aten.relu"); });
}

int64_t least_of(const Match& match, const Quantization& out) {
  return has_relu(match) ? std::max(out.quant_min, *out.zero_point.find<int64_t>()) : out.quant_min;
}

Node* producer_of(const Node& node, std::string_view argument) {
  const Value* value = node.find_input(argument);
  return value == nullptr ? nullptr : value->producer();
}

// The compute op right after the dequantize of `x`.
Node& compute_op(const Match& match) { return *match.consumer("x")->output()->users().front(); }

struct Operands {
  Node* op = nullptr;
  std::optional<Quantization> x, w;
};

Operands find_operands(const Match& match) {
  Operands result;
  result.op = &compute_op(match);
  result.x = find_quantization(producer_of(*result.op, "input"));
  result.w = find_quantization(producer_of(*result.op, "weight"));
  return result;
}

// q(op(dq(x), dq(w), b?)): linear and convolutions, also transposed ones. A transposed weight with
// groups has scales for the channels of one group, so it must be quantized per tensor.
Value* build_sum_of_products(Graph& graph, const Match& match, Compat compat) {
  const std::optional<Quantization> out = find_quantization(match.root);
  const Operands in = find_operands(match);
  const bool is_linear = in.op->is("aten.linear"), transposes = is_transposed_conv(*in.op);
  if (!is_static_tensor(out, compat) || !is_static_tensor(in.x, compat) ||
      !is_weight(graph, in.w, compat, transposes ? 1 : 0))
    return nullptr;
  if (!is_linear && !in.w->input->meta) return nullptr;
  if (transposes &&
      (compat == Compat::kTorchao || (in.w->is_per_channel && in.op->int_or("groups", 1) != 1)))
    return nullptr;
  // torchao's form cannot run without a bias
  if (compat == Compat::kTorchao && match.find("b") == nullptr) return nullptr;
  const int spatial = is_linear ? 0 : static_cast<int>(in.w->input->meta->sizes.size()) - 2;
  Emitter emit(graph, *match.root, *in.op);
  Value* x = widen(emit, in.x->input, *in.x);
  Value* sum = accumulate(emit, *in.op, x, widen(emit, in.w->input, *in.w), compat);
  const Argument scale = emit.scale("mul", in.w->scale, in.x->scale);
  sum = add_bias(emit, sum, match.find("b"), scale, spatial, compat);
  Argument factor = emit.scale("div", scale, out->scale);
  if (Value* factors = factor.value_or_null()) factor = along_channels(emit, factors, spatial);
  return finish(emit, to_int32(emit, "mul", sum, factor, compat), *out, least_of(match, *out));
}

// linear(dq(q(x)), dq(w), b?) with scale and zero point from choose_qparams: the float result of an
// integer sum.
Value* build_dynamic_linear(Graph& graph, const Match& match, Compat compat) {
  Node& linear = *match.root;
  Node* dequantize = producer_of(linear, "input");
  const Node* choose = find_choose_qparams(dequantize);
  const std::optional<Quantization> x = find_quantization(dequantize);
  const std::optional<Quantization> w = find_quantization(producer_of(linear, "weight"));
  if (choose == nullptr || !x || x->is_per_channel || x->out_dtype || !is_8_bit(*x) ||
      !is_weight(graph, w, compat))
    return nullptr;
  if (compat == Compat::kTorchao &&
      (choose->target() != "quantized_decomposed.choose_qparams.tensor" ||
       x->dtype != DType::kInt8))
    return nullptr;
  if (compat == Compat::kTorchao && match.find("b") == nullptr) return nullptr;
  Emitter emit(graph, linear, linear);
  Value* quantized =
      emit.cast(emit.round(emit.binary("div", match.find("x"), x->scale)), DType::kInt32);
  quantized = emit.cast(
      emit.clamp(emit.binary("add", quantized, x->zero_point), x->quant_min, x->quant_max),
      x->dtype);
  Value* weight = emit.clamp(w->input, w->quant_min, w->quant_max);
  Value* wide = emit.binary("sub", emit.cast(quantized, DType::kInt16), x->zero_point);
  weight = emit.cast(weight, DType::kInt16);
  if (!w->is_per_channel) weight = emit.binary("sub", weight, w->zero_point);
  Value* sum = accumulate(emit, linear, wide, weight, compat);
  const Argument scale = emit.binary("mul", x->scale, w->scale);
  sum = emit.binary("mul", add_bias(emit, sum, match.find("b"), scale, 0, compat), scale);
  // choose_qparams gives float64
  return compat == Compat::kTorchao ? sum : emit.cast(sum, DType::kFloat32);
}

// One addend in steps of the sum. torchao's add rounds each addend and its add_relu truncates each;
// Octet rounds their sum. alpha: factor of the addend.
Value* rescaled(Emitter& emit, const Quantization& in, double alpha, const Quantization& out,
                bool is_cut_off, Compat compat) {
  Value* wide = emit.binary("sub", emit.cast(in.input, DType::kInt32), in.zero_point);
  const Argument scale = alpha == 1 ? in.scale : emit.scale("mul", in.scale, alpha);
  const Argument factor = emit.scale("div", scale, out.scale);
  if (compat == Compat::kNone) return emit.binary("mul", wide, factor);
  return to_int32(emit, "mul", wide, factor, is_cut_off ? Compat::kTorchao : Compat::kNone);
}

Value* build_add(Graph& graph, const Match& match, Compat compat) {
  Node& add = compute_op(match);
  const Node* left = producer_of(add, "self");
  const Node* right = producer_of(add, "other");
  const std::optional<Quantization> x = find_quantization(left);
  const std::optional<Quantization> y = find_quantization(right);
  const std::optional<Quantization> out = find_quantization(match.root);
  if (!is_static_tensor(x, compat) || !is_static_tensor(y, compat) ||
      !is_static_tensor(out, compat))
    return nullptr;
  const bool is_torchao = compat == Compat::kTorchao;
  const double alpha = add.float_or("alpha", 1);
  if (is_torchao && alpha != 1) return nullptr;
  const bool has_one_range = x->quant_min == y->quant_min && x->quant_min == out->quant_min &&
                             x->quant_max == y->quant_max && x->quant_max == out->quant_max;
  if (is_torchao && (left == right || add.target() != "aten.add.Tensor" || !has_one_range))
    return nullptr;
  Emitter emit(graph, *match.root, add);
  const bool with_relu = has_relu(match);
  Value* first = rescaled(emit, *x, 1, *out, with_relu, compat);
  Value* sum = emit.binary("add", first, rescaled(emit, *y, alpha, *out, with_relu, compat));
  if (!is_torchao) sum = emit.cast(emit.round(sum), DType::kInt32);
  Quantization range = *out;
  // torchao clamps a plain sum to the whole of int8, whatever the range
  if (is_torchao && !with_relu) range.quant_min = -128;
  if (is_torchao && !with_relu) range.quant_max = 127;
  return finish(emit, sum, range, least_of(match, range));
}

Value* build_max_pool2d(Graph& graph, const Match& match, Compat compat) {
  Node& pool = compute_op(match);
  const std::optional<Quantization> x = find_quantization(producer_of(pool, "self"));
  const std::optional<Quantization> out = find_quantization(match.root);
  if (!is_static_tensor(x, compat) || !is_static_tensor(out, compat)) return nullptr;
  Emitter emit(graph, *match.root, pool);
  Value* wide = emit.cast(emit.clamp(x->input, x->quant_min, x->quant_max), DType::kInt32);
  std::vector<NamedArgument> arguments = pool.arguments();
  for (NamedArgument& argument : arguments)
    if (argument.name == "self") argument.value = emit.binary("sub", wide, x->zero_point);
  std::optional<TensorMeta> meta = match.root->output()->meta;
  if (meta) meta->dtype = DType::kInt32;
  Value* largest = emit.call(pool.target(), std::move(arguments), std::move(meta));
  if (pool.outputs().size() == 2)
    graph.add_result(*largest->producer(), graph.fresh_name("indices"), pool.outputs()[1]->meta);
  Value* value = emit.binary("mul", largest, emit.scale("div", x->scale, out->scale));
  if (compat == Compat::kNone) value = emit.cast(emit.round(value), DType::kInt32);
  return finish(emit, value, *out, out->quant_min);
}

constexpr const char* kInt4Linear =
    "linear(torchao.dequantize_affine.default(torchao.quantize_affine.default(x, s, z), s, z), "
    "torchao.dequantize_affine.default(w, v, u?), b?)";

constexpr const char* kTokenLinear =
    "linear(torchao.dequantize_affine.default(torchao.quantize_affine.default(x, s, z), s, z), "
    "dq(w), b?)";

// clang-format off
constexpr std::array<ReferenceRule, 14> kRules = {{
    // name             pattern                                              torchao has it
    {"dynamic_linear",  "linear(dq(q(x)), dq(w), b?)",                        true,  build_dynamic_linear       },
    {"int4_linear",     kInt4Linear,                                          true,  build_reference_int4_linear},
    {"token_linear",    kTokenLinear,                                         false, build_reference_token_linear},
    {"linear_relu",     "q(relu(linear(dq(x), dq(w), b?)))",                  false, build_sum_of_products      },
    {"linear",          "q(linear(dq(x), dq(w), b?))",                        true,  build_sum_of_products      },
    {"conv_relu",       "q(relu({conv1d|conv2d|conv3d}(dq(x), dq(w), b?)))",  false, build_sum_of_products      },
    {"conv",            "q({conv1d|conv2d|conv3d}(dq(x), dq(w), b?))",        false, build_sum_of_products      },
    {"conv_transpose_relu", "q(relu({conv_transpose1d|conv_transpose2d|conv_transpose3d}(dq(x), dq(w), b?)))", false, build_sum_of_products},
    {"conv_transpose",  "q({conv_transpose1d|conv_transpose2d|conv_transpose3d}(dq(x), dq(w), b?))", false, build_sum_of_products},
    {"convolution",     "q(convolution(dq(x), dq(w), b?))",                   true,  build_sum_of_products      },
    {"add_relu",        "q(relu(add(dq(x), dq(y))))",                         true,  build_add                  },
    {"add",             "q(add(dq(x), dq(y)))",                               true,  build_add                  },
    {"max_pool2d",      "q(max_pool2d(dq(x)))",                               false, build_max_pool2d           },
    {"max_pool2d_with_indices", "q(max_pool2d_with_indices(dq(x)))",          true,  build_max_pool2d           },
}};
// clang-format on

}  // namespace

bool is_all_zero(const Graph& graph, const Value* value) {
  const Tensor* tensor = graph.find_constant(value);
  if (tensor == nullptr || !tensor->defined() || !tensor->is_contiguous()) return false;
  const auto all_zero = [&](const auto* data) {
    return std::all_of(data, data + tensor->numel(), [](auto element) { return element == 0; });
  };
  if (tensor->dtype() == DType::kInt64) return all_zero(tensor->data<int64_t>());
  if (tensor->dtype() == DType::kInt8) return all_zero(tensor->data<int8_t>());
  return tensor->dtype() == DType::kInt32 && all_zero(tensor->data<int32_t>());
}

std::span<const ReferenceRule> compute_reference_rules() { return kRules; }

}  // namespace octet
