// Attention as the products, the mask and the softmax that it stands for.
#include <cmath>
#include <limits>
#include <numeric>

#include "tools/onnx/steps.h"

namespace octet {
namespace {

// Each head of x serves `groups` neighbouring heads of the queries.
std::string repeated_heads(OnnxSteps& s, const Value* x, const std::string& name, int64_t groups) {
  if (groups == 1) return name;
  const Dim& heads = s.meta(x).sizes[1];
  const std::string wide = s.op("Tile", {s.unsqueeze(name, {2}), s.ints({1, 1, groups, 1, 1})});
  const std::string shape =
      s.op("Concat", {s.ints({0, heads.value * groups}), s.shape(name, 2), s.shape(name, 3)},
           {{"axis", int64_t{0}}});
  return s.op("Reshape", {wide, shape});
}

// 1 where a query may look, 0 above the diagonal.
std::string causal_mask(OnnxSteps& s, const std::string& scores, size_t rank) {
  const std::string rows = s.shape(scores, rank - 2), columns = s.shape(scores, rank - 1);
  const std::string shape = s.op("Concat", {rows, columns}, {{"axis", int64_t{0}}});
  const std::string ones = s.op("Expand", {s.number(1, DType::kInt32), shape});
  return s.cast(s.op("Trilu", {ones}, {{"upper", int64_t{0}}}), DType::kBool);
}

// 0 or -inf for a mask of booleans.
std::string additive_mask(OnnxSteps& s, const std::string& mask, DType dtype) {
  const double hidden = -std::numeric_limits<double>::infinity();
  return s.op("Where", {mask, s.number(0, dtype), s.number(hidden, dtype)});
}

// softmax(q @ transpose(k) * scale + mask) @ v
void convert_attention(OnnxSteps& s) {
  Value* q = s.value({"query"});
  Value* k = s.value({"key"});
  Value* v = s.value({"value"});
  const size_t rank = s.rank(q);
  const DType dtype = s.dtype(q);
  if (s.rank(k) != rank || rank < 2) return s.refuse("with tensors of unequal rank");
  if (s.node.float_or("dropout_p", 0) != 0) return s.refuse("with dropout");
  const std::optional<int64_t> width = s.fixed_size(q, rank - 1);
  if (!width) return;
  std::string keys = s.exporter.name_of(k), values = s.exporter.name_of(v);
  if (s.node.bool_or("enable_gqa", false)) {
    if (rank != 4) return s.refuse("with groups of heads in tensors that have not 4 dimensions");
    const std::optional<int64_t> wanted = s.fixed_size(q, 1), heads = s.fixed_size(k, 1);
    if (!wanted || !heads) return;
    keys = repeated_heads(s, k, keys, *wanted / *heads);
    values = repeated_heads(s, v, values, *wanted / *heads);
  }
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[rank - 1], dims[rank - 2]);
  const double scale = s.node.float_or("scale", 1 / std::sqrt(static_cast<double>(*width)));
  std::string scores = s.op("MatMul", {s.exporter.name_of(q), s.transpose(keys, dims)});
  scores = s.mul(scores, s.number(scale, dtype));
  if (s.node.bool_or("is_causal", false)) {
    scores = s.add(scores, additive_mask(s, causal_mask(s, scores, rank), dtype));
  } else if (Value* mask = s.value({"attn_mask"})) {
    const std::string name = s.exporter.name_of(mask);
    scores = s.add(scores, s.dtype(mask) == DType::kBool ? additive_mask(s, name, dtype)
                                                         : s.cast(mask, dtype));
  }
  const std::string weights = s.op("Softmax", {scores}, {{"axis", int64_t{-1}}});
  s.give(s.op("MatMul", {weights, values}));
}

constexpr OnnxRow kAttentionRows[] = {
    {"aten.scaled_dot_product_attention", convert_attention},
};

}  // namespace

std::span<const OnnxRow> attention_onnx_rows() { return kAttentionRows; }

}  // namespace octet
