// Imports attention as its products, mask and softmax. Each product is then quantized, or not, like
// any other product.
#include <algorithm>
#include <cmath>

#include "lowering/import/steps.h"

namespace octet {
namespace {

// A causal mask: -inf above the diagonal.
int causal_constant(Steps& s, const Node& node, int64_t rows, int64_t columns) {
  std::vector<float> mask(static_cast<size_t>(rows * columns), 0.0f);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i + 1; j < columns; ++j)
      mask[static_cast<size_t>(i * columns + j)] = -INFINITY;
  return s.add_constant(node.name() + "_causal",
                        Tensor::from<float>(DType::kFloat32, {rows, columns}, mask));
}

int first_of(Steps& s, int x, int64_t dim, const SizeExpr& size) {
  Sizes sizes = s.sizes(x);
  if (sizes[static_cast<size_t>(dim)] == size) return x;
  sizes[static_cast<size_t>(dim)] = size;
  return s.op("slice", {x}, sizes, DType::kFloat32,
              {{attr::kDim, dim}, {attr::kStart, int64_t{0}}, {attr::kStep, int64_t{1}}});
}

// For open sizes: a slice of the mask for the greatest size or, if that is too large, a comparison
// of positions.
int causal_mask(Steps& s, const Node& node, const SizeExpr& rows, const SizeExpr& columns) {
  constexpr int64_t kMost = 2048;
  const bool is_fixed = rows.is_number() && columns.is_number();
  const int64_t most_rows = s.size_table().greatest(rows),
                most_columns = s.size_table().greatest(columns);
  if (!is_fixed &&
      (most_rows < 0 || most_rows > kMost || most_columns < 0 || most_columns > kMost)) {
    const int row = s.reshape(s.numbers(rows), {rows, 1}),
              column = s.reshape(s.numbers(columns), {1, columns});
    return s.compare("ge", row, column);
  }
  const int constant = causal_constant(s, node, most_rows, most_columns);
  return first_of(s, first_of(s, constant, 0, rows), 1, columns);
}

// Whether heads are grouped: each head of x [N, heads, length, width] serves consecutive heads of
// q.
bool has_whole_groups(const Steps& s, int q, int x) {
  const SizeExpr wanted = s.sizes(q)[1], heads = s.sizes(x)[1];
  return wanted.is_number() && heads.is_number() && heads.number() > 0 &&
         wanted.number() % heads.number() == 0;
}

int repeat_heads(Steps& s, int x, int64_t wanted) {
  const Sizes sizes = s.sizes(x);
  const DType dtype = s.tensor(x).dtype;
  if (sizes[1].number() == wanted) return x;
  const int apart = s.op("reshape", {x}, {sizes[0], sizes[1], 1, sizes[2], sizes[3]}, dtype);
  const int wide =
      s.op("expand", {apart}, {sizes[0], sizes[1], wanted / sizes[1].number(), sizes[2], sizes[3]},
           dtype);
  return s.op("reshape", {wide}, {sizes[0], wanted, sizes[2], sizes[3]}, dtype);
}

bool is_number(const Steps& s, int tensor, float number) {
  const ProgramTensor& given = s.tensor(tensor);
  return given.is_constant() && given.dtype == DType::kFloat32 && given.data.defined() &&
         given.numel() == 1 && given.data.data<float>()[0] == number;
}

// Converts a boolean mask to one that is added to the scores: 0 or -inf. A computed mask is
// converted once for all attentions that read it.
int additive_mask(Steps& s, const Node& node, int mask) {
  const ProgramTensor& given = s.tensor(mask);
  if (!given.is_constant()) {
    for (const ProgramOp& op : s.program().ops)
      if (op.is("where") && op.inputs[0] == mask && is_number(s, op.inputs[1], 0) &&
          is_number(s, op.inputs[2], -INFINITY))
        return op.outputs[0];
    const auto number = [&](const char* what, float value) {
      const std::vector<float> values = {value};
      return s.add_constant(node.name() + what, Tensor::from<float>(DType::kFloat32, {}, values));
    };
    const int seen = number("_seen", 0), hidden = number("_hidden", -INFINITY);
    return s.op("where", {mask, seen, hidden}, s.sizes(mask), DType::kFloat32);
  }
  const Tensor added = Tensor::zeros(DType::kFloat32, given.shape);
  for (int64_t i = 0; i < added.numel(); ++i)
    added.data<float>()[i] = given.data.data<bool>()[i] ? 0.0f : -INFINITY;
  return s.add_constant(node.name() + "_mask", added);
}

// Whether a row of an additive mask may hide all elements.
bool may_hide_rows(const ProgramTensor& mask) {
  if (!mask.is_constant() || !mask.data.defined() || mask.shape.empty()) return true;
  const int64_t width = mask.shape.back();
  const Tensor values = mask.data.contiguous();
  const float* row = values.data<float>();
  for (const float* end = row + values.numel(); row != end; row += width)
    if (std::all_of(row, row + width, [](float value) { return value == -INFINITY; })) return true;
  return false;
}

// softmax(q @ transpose(k) * scale + mask) @ v
void import_attention(Steps& s, const Node& node) {
  if (node.float_or("dropout_p", 0) != 0)
    return s.refuse("with dropout, in training mode; export in eval mode");
  const int q = s.input("query");
  int k = s.input("key"), v = s.input("value");
  if (s.sizes(q).size() != s.sizes(k).size() || s.sizes(q).size() < 2)
    return s.refuse("with tensors of unequal rank");
  if (node.bool_or("enable_gqa", false)) {
    if (s.sizes(q).size() != 4 || !has_whole_groups(s, q, k) || !has_whole_groups(s, q, v))
      return s.refuse("with a number of heads that is not a multiple of the keys'");
    k = repeat_heads(s, k, s.sizes(q)[1].number());
    v = repeat_heads(s, v, s.sizes(q)[1].number());
  }
  const Sizes sq = s.sizes(q), sk = s.sizes(k);
  const size_t rank = sq.size();
  if (!sq.back().is_number()) return s.refuse("whose heads are not of a fixed width");
  std::vector<int64_t> dims;
  Sizes transposed = sk, scores = sq;
  for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  std::swap(dims[rank - 1], dims[rank - 2]);
  std::swap(transposed[rank - 1], transposed[rank - 2]);
  scores.back() = sk[rank - 2];
  const bool is_double = s.tensor(q).dtype == DType::kFloat64;
  const DType dtype = is_double ? DType::kFloat64 : DType::kFloat32;
  const int kt = s.op("permute", {k}, transposed, dtype, {{attr::kDims, dims}});
  int scored = s.op("matmul", {q, kt}, scores, dtype);
  const double scale =
      node.float_or("scale", 1 / std::sqrt(static_cast<double>(sq.back().number())));
  const auto single = static_cast<float>(scale);
  const Tensor factor = is_double ? Tensor::from<double>(dtype, {}, std::span(&scale, 1))
                                  : Tensor::from<float>(dtype, {}, std::span(&single, 1));
  scored = s.op("mul", {scored, s.add_constant(node.name() + "_scale", factor)}, scores, dtype);
  int mask = s.input("attn_mask");
  if (node.bool_or("is_causal", false)) mask = causal_mask(s, node, sq[rank - 2], sk[rank - 2]);
  if (mask >= 0 && s.tensor(mask).dtype == DType::kBool) mask = additive_mask(s, node, mask);
  if (mask >= 0) scored = s.op("add", {scored, mask}, scores, dtype);
  Attributes attributes = {{attr::kDim, static_cast<int64_t>(rank) - 1}};
  const DType added = mask < 0 ? DType::kBool : s.tensor(mask).dtype;
  if (added == DType::kFloat64 || (added == DType::kFloat32 && may_hide_rows(s.tensor(mask))))
    attributes[attr::kMasked] = true;
  const int p = s.op("softmax", {scored}, scores, dtype, std::move(attributes));
  s.emit("matmul", {p, v});
}

constexpr ImportRow kAttentionRows[] = {
    {"aten.scaled_dot_product_attention", import_attention},
};

}  // namespace

std::span<const ImportRow> attention_import_rows() { return kAttentionRows; }

}  // namespace octet
