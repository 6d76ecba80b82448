#include "core/ops/weighted_ops.h"

namespace octet {
namespace {

// clang-format off
constexpr WeightedOp kWeightedOps[] = {
    // op                       form                         x          weight    bias    out  in
    {"aten.conv1d",           WeightForm::kConv,           "input",   "weight", "bias",  0,  1},
    {"aten.conv2d",           WeightForm::kConv,           "input",   "weight", "bias",  0,  1},
    {"aten.conv3d",           WeightForm::kConv,           "input",   "weight", "bias",  0,  1},
    {"aten.conv_transpose1d", WeightForm::kTransposedConv, "input",   "weight", "bias",  1,  0},
    {"aten.conv_transpose2d", WeightForm::kTransposedConv, "input",   "weight", "bias",  1,  0},
    {"aten.conv_transpose3d", WeightForm::kTransposedConv, "input",   "weight", "bias",  1,  0},
    {"aten.convolution",      WeightForm::kConvolution,    "input",   "weight", "bias", -1, -1},
    {"aten.linear",           WeightForm::kLinear,         "input",   "weight", "bias",  0,  1},
    {"aten.addmm",            WeightForm::kColumns,        "mat1",    "mat2",   "self",  1,  0},
    {"aten.mm",               WeightForm::kColumns,        "self",    "mat2",   "",      1,  0},
    {"aten.matmul",           WeightForm::kProduct,        "self",    "other",  "",     -1, -1},
    {"aten.bmm",              WeightForm::kProduct,        "self",    "mat2",   "",     -1, -1},
    {"aten.baddbmm",          WeightForm::kProduct,        "batch1",  "batch2", "self", -1, -1},
    {"aten.embedding",        WeightForm::kTable,          "indices", "weight", "",      0, -1},
};
// clang-format on

}  // namespace

std::span<const WeightedOp> weighted_ops() { return kWeightedOps; }

const WeightedOp* find_weighted_op(const Node& node) {
  for (const WeightedOp& row : kWeightedOps)
    if (node.is(row.op)) return &row;
  return nullptr;
}

const WeightedOp* find_conv_or_linear(const Node& node) {
  const WeightedOp* row = find_weighted_op(node);
  const bool is_wanted = row != nullptr && (row->form == WeightForm::kConv ||
                                            row->form == WeightForm::kTransposedConv ||
                                            row->form == WeightForm::kLinear);
  return is_wanted ? row : nullptr;
}

bool is_transposed_conv(const Node& node) {
  const WeightedOp* row = find_weighted_op(node);
  if (row == nullptr) return false;
  return row->form == WeightForm::kTransposedConv ||
         (row->form == WeightForm::kConvolution && node.bool_or("transposed", false));
}

std::string pattern_ops(WeightForm form) {
  std::string ops = "{";
  for (const WeightedOp& row : kWeightedOps)
    if (row.form == form)
      ops.append(ops.size() == 1 ? "" : "|").append(row.op.substr(row.op.find('.') + 1));
  return ops + "}";
}

}  // namespace octet
