#include "annotate/reference/representation.h"

#include <algorithm>

#include <fmt/format.h>

#include "annotate/graph/qdq_nodes.h"
#include "annotate/reference/rules.h"
#include "core/passes/rewrites.h"

namespace octet {
namespace {

// Replaces the result of `root`; unused nodes before it are removed later.
void replace(Graph& graph, Node& root, Value* value) { graph.replace_uses(root.output(), value); }

int apply(Graph& graph, const ReferenceRule& rule, Compat compat) {
  const Pattern pattern = parse_pattern(rule.pattern);
  int rewrites = 0;
  for (Node* node : graph.nodes()) {
    const Value* result = node->output_or_null();
    if (result == nullptr || result->is_unused()) continue;
    const std::optional<Match> found = match(pattern, *node);
    Value* value = found ? rule.build(graph, *found, compat) : nullptr;
    if (value == nullptr) continue;
    replace(graph, *node, value);
    ++rewrites;
  }
  if (rewrites > 0) remove_dead(graph);
  return rewrites;
}

int apply_to_single_ops(Graph& graph, Compat compat, Report& report) {
  std::map<std::string, int> left;
  int rewrites = 0;
  for (Node* node : graph.nodes()) {
    if (node->target().starts_with("torchao.quantize_affine") ||
        node->target().starts_with("torchao.dequantize_affine"))
      ++left["affine blocks"];
    if (!is_quantize(node) && !is_dequantize(node)) continue;
    Value* value = is_quantize(node) ? build_reference_quantize(graph, *node, compat)
                                     : build_reference_dequantize(graph, *node, compat);
    if (value == nullptr) {
      const Argument* dtype = node->find_argument("dtype");
      ++left[dtype != nullptr && dtype->find<DType>() != nullptr
                 ? std::string(name_of(*dtype->find<DType>()))
                 : "unknown"];
      continue;
    }
    replace(graph, *node, value);
    graph.erase(*node);
    ++rewrites;
  }
  for (const auto& [dtype, count] : left)
    report.note(fmt::format(
        "reference: {} quantize and dequantize ops of {} stay, they have no integer form here",
        count, dtype));
  return rewrites;
}

// Single quantize and dequantize ops as integer arithmetic:
//   q:   clamp(int32(round(x / scale)) + zero_point, quant_min, quant_max)
//   dq:  (float(clamp(x, quant_min, quant_max)) - zero_point) * scale
// Both compute in float32, as the ops do; 16-bit floats are cast before and after.

constexpr std::array<DType, 3> kQuantized = {DType::kInt8, DType::kUInt8, DType::kInt16};
constexpr std::array<DType, 4> kDequantized = {DType::kInt8, DType::kUInt8, DType::kInt16,
                                               DType::kInt32};

template <size_t N>
bool has_form(const Quantization& q, Compat compat, const std::array<DType, N>& dtypes) {
  if (compat == Compat::kTorchao) return q.dtype == DType::kInt8 && !q.out_dtype;
  return std::ranges::find(dtypes, q.dtype) != dtypes.end();
}

Value* add_zero_point(Emitter& emit, Value* value, const char* op, const Argument& zero_point) {
  return zero_point.is_none() ? value : emit.binary(op, value, zero_point);
}

// x / scale; with a stored scale the rounded form multiplies by the reciprocal, as quantize ops do.
Value* in_steps(Emitter& emit, Value* x, const Argument& scale, Compat compat) {
  const double* number = scale.find<double>();
  if (compat == Compat::kTorchao || number == nullptr) return emit.binary("div", x, scale);
  return emit.binary("mul", x, 1.0 / *number);
}

}  // namespace

int to_reference_representation(Graph& graph, Compat compat, Report& report) {
  int rewrites = 0;
  for (const ReferenceRule& rule : compute_reference_rules())
    if (rule.in_torchao || compat == Compat::kNone) rewrites += apply(graph, rule, compat);
  rewrites += apply_to_single_ops(graph, compat, report);
  remove_dead(graph, DeadInputs::kRemove);
  return rewrites;
}

Value* build_reference_quantize(Graph& graph, Node& quantize, Compat compat) {
  const std::optional<Quantization> q = find_quantization(&quantize);
  if (!q || !has_form(*q, compat, kQuantized)) return nullptr;
  Emitter emit(graph, quantize, quantize);
  Value* x = q->input;
  const bool is_half = x->meta && is_floating_point(x->meta->dtype) && size_of(x->meta->dtype) < 4;
  if (is_half && compat == Compat::kNone) x = emit.cast(x, DType::kFloat32);
  if (q->is_per_channel) x = emit.transpose(x, q->axis, -1);
  x = emit.cast(emit.round(in_steps(emit, x, q->scale, compat)), DType::kInt32);
  x = emit.clamp(add_zero_point(emit, x, "add", q->zero_point), q->quant_min, q->quant_max);
  if (q->is_per_channel) x = emit.transpose(x, q->axis, -1);
  return emit.cast(x, q->dtype);
}

Value* build_reference_dequantize(Graph& graph, Node& dequantize, Compat compat) {
  const std::optional<Quantization> q = find_quantization(&dequantize);
  if (!q || !has_form(*q, compat, kDequantized)) return nullptr;
  Emitter emit(graph, dequantize, dequantize);
  const DType result = q->out_dtype.value_or(DType::kFloat32);
  Value* x = emit.clamp(q->input, q->quant_min, q->quant_max);
  if (!q->is_per_channel) {
    x = add_zero_point(emit, emit.cast(x, DType::kFloat32), "sub", q->zero_point);
    return emit.cast(emit.binary("mul", x, q->scale), result);
  }
  x = emit.cast(emit.transpose(x, q->axis, -1), DType::kInt32);
  x = emit.cast(add_zero_point(emit, x, "sub", q->zero_point), DType::kFloat32);
  x = emit.binary("mul", x, q->scale);
  if (result != DType::kFloat32) x = emit.cast(x, result);
  return emit.transpose(x, q->axis, -1);
}

}  // namespace octet
