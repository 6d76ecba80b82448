// Attention as the products, the mask and the softmax that it stands for; what of it runs on
// integers is decided as for any product.
#include <algorithm>
#include <cmath>

#include "lowering/import/importer.h"
#include "lowering/import/steps.h"

namespace octet {
namespace {

// -inf above the diagonal.
int causal_constant(Importer& importer, const Node& node, int64_t rows, int64_t columns) {
  std::vector<float> mask(static_cast<size_t>(rows * columns), 0.0f);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i + 1; j < columns; ++j)
      mask[static_cast<size_t>(i * columns + j)] = -INFINITY;
  return importer.add_constant(node.name() + "_causal",
                               Tensor::from<float>(DType::kFloat32, {rows, columns}, mask));
}

int first_of(Importer& importer, const Node& node, int x, int64_t dim, const SizeExpr& size) {
  Sizes sizes = importer.sizes(x);
  if (sizes[static_cast<size_t>(dim)] == size) return x;
  sizes[static_cast<size_t>(dim)] = size;
  return importer.emit_step(node, "slice", {x}, sizes, DType::kFloat32,
                            {{"dim", dim}, {"start", int64_t{0}}, {"step", int64_t{1}}});
}

// Of sizes that are not fixed: the corner of the greatest mask, or, where that is too great, what
// comparing positions gives.
int causal_mask(Importer& importer, const Node& node, const SizeExpr& rows,
                const SizeExpr& columns) {
  constexpr int64_t kMost = 2048;
  const bool is_fixed = rows.is_number() && columns.is_number();
  const int64_t most_rows = importer.greatest(rows), most_columns = importer.greatest(columns);
  if (!is_fixed &&
      (most_rows < 0 || most_rows > kMost || most_columns < 0 || most_columns > kMost)) {
    Steps s(importer, node);
    const int row = s.reshape(s.numbers(rows), {rows, 1}),
              column = s.reshape(s.numbers(columns), {1, columns});
    return s.compare("ge", row, column);
  }
  const int constant = causal_constant(importer, node, most_rows, most_columns);
  return first_of(importer, node, first_of(importer, node, constant, 0, rows), 1, columns);
}

// Grouped heads: each head of x [N, heads, length, width] serves neighbouring heads of q.
bool has_whole_groups(const Importer& importer, int q, int x) {
  const SizeExpr wanted = importer.sizes(q)[1], heads = importer.sizes(x)[1];
  return wanted.is_number() && heads.is_number() && heads.number() > 0 &&
         wanted.number() % heads.number() == 0;
}

int repeat_heads(Importer& importer, const Node& node, int x, int64_t wanted) {
  const Sizes sizes = importer.sizes(x);
  const DType dtype = importer.tensor(x).dtype;
  if (sizes[1].number() == wanted) return x;
  const int apart =
      importer.emit_step(node, "reshape", {x}, {sizes[0], sizes[1], 1, sizes[2], sizes[3]}, dtype);
  const int wide = importer.emit_step(
      node, "expand", {apart}, {sizes[0], sizes[1], wanted / sizes[1].number(), sizes[2], sizes[3]},
      dtype);
  return importer.emit_step(node, "reshape", {wide}, {sizes[0], wanted, sizes[2], sizes[3]}, dtype);
}

bool is_number(const Importer& importer, int tensor, float number) {
  const ProgramTensor& given = importer.tensor(tensor);
  return given.is_constant() && given.dtype == DType::kFloat32 && given.data.defined() &&
         given.numel() == 1 && given.data.data<float>()[0] == number;
}

// A mask of booleans as what is added to the scores: 0 or -inf. One that is no constant is made so
// once, for all attentions that read it.
int additive_mask(Importer& importer, const Node& node, int mask) {
  const ProgramTensor& given = importer.tensor(mask);
  if (!given.is_constant()) {
    for (const ProgramOp& op : importer.program().ops)
      if (op.kind == "where" && op.inputs[0] == mask && is_number(importer, op.inputs[1], 0) &&
          is_number(importer, op.inputs[2], -INFINITY))
        return op.outputs[0];
    const auto number = [&](const char* what, float value) {
      const std::vector<float> values = {value};
      return importer.add_constant(node.name() + what,
                                   Tensor::from<float>(DType::kFloat32, {}, values));
    };
    const int seen = number("_seen", 0), hidden = number("_hidden", -INFINITY);
    return importer.emit_step(node, "where", {mask, seen, hidden}, importer.sizes(mask),
                              DType::kFloat32);
  }
  const Tensor added = Tensor::zeros(DType::kFloat32, given.shape);
  for (int64_t i = 0; i < added.numel(); ++i)
    added.data<float>()[i] = given.data.data<bool>()[i] ? 0.0f : -INFINITY;
  return importer.add_constant(node.name() + "_mask", added);
}

// Whether some row of a mask that is added may hide everything.
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
void import_attention(Importer& importer, const Node& node) {
  if (node.float_or("dropout_p", 0) != 0)
    return importer.refuse(node, "with dropout, in training mode; export in eval mode");
  const int q = importer.operand(node, "query");
  int k = importer.operand(node, "key"), v = importer.operand(node, "value");
  if (importer.sizes(q).size() != importer.sizes(k).size() || importer.sizes(q).size() < 2)
    return importer.refuse(node, "with tensors of unequal rank");
  if (node.bool_or("enable_gqa", false)) {
    if (importer.sizes(q).size() != 4 || !has_whole_groups(importer, q, k) ||
        !has_whole_groups(importer, q, v))
      return importer.refuse(node, "with heads that are no multiple of those of the keys");
    k = repeat_heads(importer, node, k, importer.sizes(q)[1].number());
    v = repeat_heads(importer, node, v, importer.sizes(q)[1].number());
  }
  const Sizes sq = importer.sizes(q), sk = importer.sizes(k);
  const size_t rank = sq.size();
  if (!sq.back().is_number()) return importer.refuse(node, "whose heads are not of a fixed width");
  std::vector<int64_t> dims;
  Sizes transposed = sk, scores = sq;
  for (size_t d = 0; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  std::swap(dims[rank - 1], dims[rank - 2]);
  std::swap(transposed[rank - 1], transposed[rank - 2]);
  scores.back() = sk[rank - 2];
  const bool is_double = importer.tensor(q).dtype == DType::kFloat64;
  const DType dtype = is_double ? DType::kFloat64 : DType::kFloat32;
  const int kt = importer.emit_step(node, "permute", {k}, transposed, dtype, {{"dims", dims}});
  int s = importer.emit_step(node, "matmul", {q, kt}, scores, dtype);
  const double scale =
      node.float_or("scale", 1 / std::sqrt(static_cast<double>(sq.back().number())));
  const auto single = static_cast<float>(scale);
  const Tensor factor = is_double ? Tensor::from<double>(dtype, {}, std::span(&scale, 1))
                                  : Tensor::from<float>(dtype, {}, std::span(&single, 1));
  s = importer.emit_step(node, "mul", {s, importer.add_constant(node.name() + "_scale", factor)},
                         scores, dtype);
  int mask = importer.operand(node, "attn_mask");
  if (node.bool_or("is_causal", false))
    mask = causal_mask(importer, node, sq[rank - 2], sk[rank - 2]);
  if (mask >= 0 && importer.tensor(mask).dtype == DType::kBool)
    mask = additive_mask(importer, node, mask);
  if (mask >= 0) s = importer.emit_step(node, "add", {s, mask}, scores, dtype);
  Attributes attributes = {{"dim", static_cast<int64_t>(rank) - 1}};
  const DType added = mask < 0 ? DType::kBool : importer.tensor(mask).dtype;
  if (added == DType::kFloat64 ||
      (added == DType::kFloat32 && may_hide_rows(importer.tensor(mask))))
    attributes["masked"] = true;
  const int p = importer.emit_step(node, "softmax", {s}, scores, dtype, std::move(attributes));
  importer.emit(node, "matmul", {p, v});
}

constexpr ImportRow kAttentionRows[] = {
    {"aten.scaled_dot_product_attention", import_attention},
};

}  // namespace

std::span<const ImportRow> attention_import_rows() { return kAttentionRows; }

}  // namespace octet
