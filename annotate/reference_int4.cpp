// linear over activations quantized per token at run time and int4 weights in groups, as integer sums a group.
#include <algorithm>

#include "annotate/quantization_ops.h"
#include "annotate/reference_emitter.h"
#include "annotate/reference_rules.h"

namespace octet {
namespace {

struct AffineOperand {
  Value* input = nullptr;
  Value* scale = nullptr;
  Value* zero_point = nullptr;  // may be null
  std::vector<int64_t> block_size;
};

AffineOperand affine_operand(const Node& node) {
  return {node.find_input("input"), node.find_input("scale"), node.find_input("zero_point"), node.ints_or("block_size", {})};
}

bool has_range(const Node& node, std::string_view dtype_name, int64_t min, int64_t max) {
  const Argument* dtype = node.find_argument(dtype_name);
  return dtype != nullptr && dtype->find<DType>() != nullptr && *dtype->find<DType>() == DType::kInt8 && node.int_or("quant_min", -128) == min &&
         node.int_or("quant_max", 127) == max;
}

bool is_per_token(const std::vector<int64_t>& block_size, int64_t columns) {
  return !block_size.empty() && block_size.back() == columns &&
         std::all_of(block_size.begin(), block_size.end() - 1, [](int64_t size) { return size == 1; });
}

// The sizes of the result for a reshape: at most one that is known at run time only. Empty when there are more.
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
    return emit_.transpose(reshape(centered, {-1, columns_ / group_, group_}, {rows_, columns_ / group_, group_}), 0, 1);
  }

  // [groups, group, outputs]
  Value* weights(const AffineOperand& w) {
    Value* wide = emit_.cast(emit_.clamp(w.input, -8, 7), DType::kInt32);
    const std::vector<int64_t> sizes = {outputs_, columns_ / group_, group_};
    return emit_.transpose(emit_.transpose(reshape(wide, sizes, sizes), 0, 1), 1, 2);
  }

  // [groups, 1, outputs]. torchao's kernels keep scales as bfloat16.
  Value* weight_scales(const AffineOperand& w, ReferenceForm form) {
    Value* scale = w.scale;
    if (form == ReferenceForm::kTorchao) scale = emit_.cast(emit_.cast(scale, DType::kBFloat16), DType::kFloat32);
    const std::vector<int64_t> sizes = {columns_ / group_, 1, outputs_};
    return reshape(emit_.transpose(reshape(scale, {outputs_, columns_ / group_}, {outputs_, columns_ / group_}), 0, 1), sizes, sizes);
  }

  // [rows, outputs] of the products of every group, each in int32 and then scaled.
  Value* sum(Value* x, Value* w, Value* scales) {
    Value* products = emit_.call("aten.bmm.default",
                                 {
                                     {"self", x},
                                     {"mat2", w}
    },
                                 make_meta(DType::kInt32, {columns_ / group_, rows_, outputs_}));
    Value* scaled = emit_.binary("mul", emit_.cast(products, DType::kFloat32), scales);
    return emit_.call("aten.sum.dim_IntList",
                      {
                          {"self", scaled                 },
                          {"dim",  std::vector<int64_t>{0}}
    },
                      make_meta(DType::kFloat32, {rows_, outputs_}));
  }

  // One value a token, as a column.
  Value* column(Value* value) { return reshape(value, {-1, 1}, {rows_, 1}); }

  Value* reshape(Value* value, const std::vector<int64_t>& sizes, const std::vector<int64_t>& shape) {
    return emit_.call("aten.reshape.default",
                      {
                          {"self",  value},
                          {"shape", sizes}
    },
                      make_meta(value->meta->dtype, shape));
  }

 private:
  Emitter& emit_;
  int64_t rows_, columns_, outputs_, group_;
};

}  // namespace

Value* build_reference_int4_linear(Graph& graph, const Match& match, ReferenceForm form) {
  Node& linear = *match.root;
  const Node& quantize = *match.consumer("x");
  const Node& dequantize = *match.consumer("w");
  const AffineOperand x = affine_operand(quantize);
  const AffineOperand w = affine_operand(dequantize);
  if (!has_range(quantize, "output_dtype", -128, 127) || !has_range(dequantize, "input_dtype", -8, 7)) return nullptr;
  const bool is_chosen =
      x.scale != nullptr && x.scale->producer() != nullptr && x.scale->producer()->target() == "torchao.choose_qparams_affine.default";
  if (!is_chosen || x.zero_point == nullptr || (w.zero_point != nullptr && !is_all_zero(graph, w.zero_point))) return nullptr;
  if (!w.input->meta || w.input->meta->sizes.size() != 2 || !x.input->meta || !x.scale->meta || !w.scale->meta || !linear.output()->meta)
    return nullptr;
  const std::vector<int64_t> weight_shape = w.input->meta->shape();
  const int64_t columns = weight_shape[1];
  if (!is_per_token(x.block_size, columns) || w.block_size.size() != 2 || w.block_size[0] != 1 || w.block_size[1] < 1) return nullptr;
  const std::vector<int64_t> sizes = reshape_sizes(*linear.output()->meta);
  if (sizes.empty() || (form == ReferenceForm::kTorchao && match.find("b") == nullptr)) return nullptr;
  int64_t rows = 1;
  for (const int64_t size : x.input->meta->shape()) rows *= size;
  rows /= columns;
  Emitter emit(graph, linear, linear);
  GroupwiseSum parts(emit, rows, columns, weight_shape[0], w.block_size[1]);
  AffineOperand quantized = x;
  quantized.input = quantize.output();
  Value* sum = parts.sum(parts.activations(quantized), parts.weights(w), parts.weight_scales(w, form));
  sum = emit.binary("mul", sum, parts.column(x.scale));
  if (Value* bias = match.find("b")) sum = emit.binary("add", sum, bias);
  Value* result = parts.reshape(sum, sizes, linear.output()->meta->shape());
  result->meta = linear.output()->meta;
  return result;
}

}  // namespace octet
