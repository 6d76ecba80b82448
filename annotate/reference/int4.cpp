// Linear with activations quantized per token at run time, as integer sums: int4 weights in groups,
// int8 weights as one group.
#include <algorithm>

#include "annotate/graph/qdq_nodes.h"
#include "annotate/reference/rules.h"

namespace octet {
namespace {

struct AffineOperand {
  Value* input = nullptr;
  Value* scale = nullptr;
  Value* zero_point = nullptr;  // may be null
  std::vector<int64_t> block_size;
};

AffineOperand affine_operand(const Node& node) {
  return {node.find_input("input"), node.find_input("scale"), node.find_input("zero_point"),
          node.ints_or("block_size", {})};
}

bool has_range(const Node& node, std::string_view dtype_name, int64_t min, int64_t max) {
  const Argument* dtype = node.find_argument(dtype_name);
  return dtype != nullptr && dtype->find<DType>() != nullptr &&
         *dtype->find<DType>() == DType::kInt8 && node.int_or("quant_min", -128) == min &&
         node.int_or("quant_max", 127) == max;
}

bool is_per_token(const std::vector<int64_t>& block_size, int64_t columns) {
  return !block_size.empty() && block_size.back() == columns &&
         std::all_of(block_size.begin(), block_size.end() - 1,
                     [](int64_t size) { return size == 1; });
}

// The sizes of a reshape to the result, with at most one that is known only at run time. Empty when
// there are more.
std::vector<int64_t> reshape_sizes(const TensorMeta& meta) {
  std::vector<int64_t> sizes = meta.shape();
  int symbolic = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!meta.sizes[i].is_symbolic()) continue;
    sizes[i] = -1;
    ++symbolic;
  }
  return symbolic <= 1 ? sizes : std::vector<int64_t>();
}

class GroupwiseSum {
 public:
  GroupwiseSum(Emitter& emit, int64_t rows, int64_t columns, int64_t outputs, int64_t group)
      : emit_(emit), rows_(rows), columns_(columns), outputs_(outputs), group_(group) {}

  // [groups, rows, group]: x without its zero points.
  Value* activations(const AffineOperand& x) {
    Value* wide = emit_.cast(reshape(x.input, {-1, columns_}, {rows_, columns_}), DType::kInt32);
    Value* centered = emit_.cast(emit_.binary("sub", wide, column(x.zero_point)), DType::kInt32);
    return emit_.transpose(
        reshape(centered, {-1, columns_ / group_, group_}, {rows_, columns_ / group_, group_}), 0,
        1);
  }

  // [groups, group, outputs]
  Value* weights(Value* weight, int64_t quant_min, int64_t quant_max) {
    Value* wide = emit_.cast(emit_.clamp(weight, quant_min, quant_max), DType::kInt32);
    const std::vector<int64_t> sizes = {outputs_, columns_ / group_, group_};
    return emit_.transpose(emit_.transpose(reshape(wide, sizes, sizes), 0, 1), 1, 2);
  }

  // [groups, 1, outputs]. torchao's kernels keep scales as bfloat16.
  Value* weight_scales(Value* scale, Compat compat) {
    if (compat == Compat::kTorchao)
      scale = emit_.cast(emit_.cast(scale, DType::kBFloat16), DType::kFloat32);
    const std::vector<int64_t> sizes = {columns_ / group_, 1, outputs_};
    return reshape(
        emit_.transpose(
            reshape(scale, {outputs_, columns_ / group_}, {outputs_, columns_ / group_}), 0, 1),
        sizes, sizes);
  }

  // [rows, outputs] of the products of every group, each in int32 and then scaled.
  Value* sum(Value* x, Value* w, const Argument& scales) {
    Value* products = emit_.call("aten.bmm.default", {{"self", x}, {"mat2", w}},
                                 make_meta(DType::kInt32, {columns_ / group_, rows_, outputs_}));
    Value* scaled = emit_.binary("mul", emit_.cast(products, DType::kFloat32), scales);
    return emit_.call("aten.sum.dim_IntList", {{"self", scaled}, {"dim", std::vector<int64_t>{0}}},
                      make_meta(DType::kFloat32, {rows_, outputs_}));
  }

  // One value per token, as a column.
  Value* column(Value* value) { return reshape(value, {-1, 1}, {rows_, 1}); }

  Value* reshape(Value* value, const std::vector<int64_t>& sizes,
                 const std::vector<int64_t>& shape) {
    return emit_.call("aten.reshape.default", {{"self", value}, {"shape", sizes}},
                      make_meta(value->meta->dtype, shape));
  }

 private:
  Emitter& emit_;
  int64_t rows_, columns_, outputs_, group_;
};

// int8 activations with one scale and zero point per token, chosen at run time.
bool is_token_operand(const Node& quantize, const AffineOperand& x, int64_t columns) {
  if (!has_range(quantize, "output_dtype", -128, 127) || x.scale == nullptr ||
      x.zero_point == nullptr)
    return false;
  const Node* choose = x.scale->producer();
  return choose != nullptr && choose->target() == "torchao.choose_qparams_affine.default" &&
         x.input->meta && x.scale->meta && x.zero_point->meta &&
         is_per_token(x.block_size, columns);
}

int64_t row_count(const AffineOperand& x, int64_t columns) {
  int64_t rows = 1;
  for (const int64_t size : x.input->meta->shape()) rows *= size;
  return rows / columns;
}

// The sum times the activations' scales, plus bias, in the shape of the linear's result.
Value* finish(Emitter& emit, GroupwiseSum& parts, Value* sum, const AffineOperand& x,
              const Match& match) {
  const Value* output = match.root->output();
  sum = emit.binary("mul", sum, parts.column(x.scale));
  if (Value* bias = match.find("b")) sum = emit.binary("add", sum, bias);
  Value* result = parts.reshape(sum, reshape_sizes(*output->meta), output->meta->shape());
  result->meta = output->meta;
  return result;
}

// The weight's sizes when both operands and the result, of float32, allow the rewrite; empty
// otherwise.
std::vector<int64_t> weight_shape(const Match& match, const AffineOperand& x) {
  const Value* weight = match.find("w");
  const Value* output = match.root->output();
  if (!weight->meta || weight->meta->sizes.size() != 2 || !output->meta ||
      output->meta->dtype != DType::kFloat32 || reshape_sizes(*output->meta).empty())
    return {};
  const std::vector<int64_t> shape = weight->meta->shape();
  return is_token_operand(*match.consumer("x"), x, shape[1]) ? shape : std::vector<int64_t>();
}

}  // namespace

Value* build_reference_int4_linear(Graph& graph, const Match& match, Compat compat) {
  const Node& quantize = *match.consumer("x");
  const Node& dequantize = *match.consumer("w");
  AffineOperand x = affine_operand(quantize);
  const AffineOperand w = affine_operand(dequantize);
  const std::vector<int64_t> shape = weight_shape(match, x);
  if (shape.empty() || !has_range(dequantize, "input_dtype", -8, 7) || !w.scale->meta)
    return nullptr;
  if (w.zero_point != nullptr && !is_all_zero(graph, w.zero_point)) return nullptr;
  if (w.block_size.size() != 2 || w.block_size[0] != 1 || w.block_size[1] < 1) return nullptr;
  if (compat == Compat::kTorchao && match.find("b") == nullptr) return nullptr;
  Emitter emit(graph, *match.root, *match.root);
  GroupwiseSum parts(emit, row_count(x, shape[1]), shape[1], shape[0], w.block_size[1]);
  x.input = quantize.output();
  Value* activations = parts.activations(x);
  Value* sum =
      parts.sum(activations, parts.weights(w.input, -8, 7), parts.weight_scales(w.scale, compat));
  return finish(emit, parts, sum, x, match);
}

Value* build_reference_token_linear(Graph& graph, const Match& match, Compat compat) {
  const Node& quantize = *match.consumer("x");
  AffineOperand x = affine_operand(quantize);
  const std::optional<Quantization> w = find_quantization(match.consumer("w"));
  const std::vector<int64_t> shape = weight_shape(match, x);
  if (shape.empty() || !w || w->dtype != DType::kInt8 || w->out_dtype ||
      (w->is_per_channel && w->axis != 0))
    return nullptr;
  const Value* zero_points = w->zero_point.value_or_null();
  const int64_t* zero_point = w->zero_point.find<int64_t>();
  const bool is_symmetric = zero_points != nullptr ? is_all_zero(graph, zero_points)
                                                   : zero_point == nullptr || *zero_point == 0;
  if (!is_symmetric || (w->is_per_channel && !w->scale.value_or_null()->meta)) return nullptr;
  Emitter emit(graph, *match.root, *match.root);
  GroupwiseSum parts(emit, row_count(x, shape[1]), shape[1], shape[0], shape[1]);
  x.input = quantize.output();
  Value* activations = parts.activations(x);
  Value* weights = parts.weights(w->input, w->quant_min, w->quant_max);
  const Argument scale = w->is_per_channel
                             ? Argument(parts.weight_scales(w->scale.value_or_null(), compat))
                             : w->scale;
  return finish(emit, parts, parts.sum(activations, weights, scale), x, match);
}

}  // namespace octet
