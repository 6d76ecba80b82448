// Implements the steps that fold constants and merge equal ops, and counts multiply-accumulates.
#include <algorithm>

#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"
#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

// Replaces the op by a constant.
void replace_by(ProgramEditor& editor, size_t i, int constant) {
  const int result = editor.op(i).outputs[0];
  editor.erase(i);
  editor.replace_uses(result, constant);
}

std::string folded_name(ProgramEditor& editor, size_t i) {
  return editor.tensor(editor.op(i).outputs[0]).name + "_folded";
}

void replace_by_constant(ProgramEditor& editor, size_t i, Tensor data,
                         std::optional<TensorQParams> qparams) {
  replace_by(editor, i,
             editor.add_constant(folded_name(editor, i), std::move(data), std::move(qparams)));
}

void replace_by_constant(ProgramEditor& editor, size_t i, StoredConstant stored) {
  replace_by(editor, i, editor.add_constant(folded_name(editor, i), std::move(stored)));
}

std::optional<TensorQParams> permuted(std::optional<TensorQParams> qparams,
                                      const std::vector<int64_t>& dims) {
  if (qparams && !qparams->is_per_tensor())
    qparams->axis = static_cast<int>(std::ranges::find(dims, qparams->axis) - dims.begin());
  return qparams;
}

bool fold_constant_op(ProgramEditor& editor, size_t i) {
  const ProgramOp& op = editor.op(i);
  if (op.inputs.size() != 1 || !editor.is_constant(op.inputs[0])) return false;
  const ProgramTensor& x = editor.tensor(op.inputs[0]);
  const ProgramTensor& y = editor.tensor(op.outputs[0]);
  if (op.is("quantize") && has_constant_values(x.dtype)) {
    const IntegerRange range = integer_range(y.dtype);
    replace_by_constant(
        editor, i,
        quantize_constant(constant_data(x), *y.qparams, y.dtype, op.get(attr::kQuantMin, range.min),
                          op.get(attr::kQuantMax, range.max)),
        y.qparams);
  } else if (op.is("dequantize") && size_of(x.dtype) == 4) {
    replace_by_constant(editor, i, dequantize_constant(x.data, *x.qparams), {});
  } else if (op.is("cast") && x.dtype == DType::kFloat32 && y.dtype == DType::kFloat16) {
    replace_by_constant(editor, i, half_constant(constant_data(x)), {});
  } else if (op.is("cast") && x.dtype == DType::kFloat16 && y.dtype == DType::kFloat32) {
    replace_by_constant(editor, i, stored_half(x.data));
  } else if (op.is("permute") && x.stored) {
    replace_by_constant(editor, i, permuted(*x.stored, op.get(attr::kDims)));
  } else if (const std::optional<StoredConstant> same =
                 op.is("reshape") && x.stored ? reshaped(*x.stored, y.shape) : std::nullopt) {
    replace_by_constant(editor, i, *same);
  } else if (op.is("permute")) {
    const std::vector<int64_t> dims = op.get(attr::kDims);
    replace_by_constant(editor, i, permute_constant(x.data, dims), permuted(x.qparams, dims));
  } else if (op.is("reshape") && (!x.qparams || x.qparams->is_per_tensor())) {
    const Tensor data = constant_data(x);
    replace_by_constant(
        editor, i,
        Tensor(data.storage(), x.dtype, y.shape, contiguous_strides(y.shape), data.offset()),
        x.qparams);
  } else {
    return false;
  }
  return true;
}

// Folds permute(dequantize(c)) with per-channel parameters. sink_dequantize skips it, because it
// moves only per-tensor parameters; for a constant the new axis is known.
bool fold_permuted_dequantize(ProgramEditor& editor, size_t i) {
  const ProgramOp& op = editor.op(i);
  if (!op.is("permute")) return false;
  ProgramOp* dequantize = editor.find_producer(op.inputs[0], "dequantize");
  if (dequantize == nullptr || !editor.is_constant(dequantize->inputs[0])) return false;
  const ProgramTensor& x = editor.tensor(dequantize->inputs[0]);
  const std::vector<int64_t> dims = op.get(attr::kDims);
  const int constant = editor.add_constant(x.name + "_folded", permute_constant(x.data, dims),
                                           permuted(x.qparams, dims));
  editor.op(i).kind = "dequantize";
  editor.op(i).attributes.clear();
  editor.op(i).inputs = {constant};
  editor.refresh();
  return true;
}

// Embeddings read the table that a product has as floats, such as a language model's head, in the
// same form, so that a file has it once.
void share_table(ProgramEditor& editor, int integer, int folded) {
  if (!editor.tensor(folded).stored) return;
  for (const int user : editor.users(integer)) {
    ProgramOp& op = editor.op(static_cast<size_t>(user));
    if ((op.is("embedding") || op.is("embedding_bag")) && op.inputs[0] == integer &&
        !editor.tensor(op.outputs[0]).qparams)
      op.inputs[0] = folded;
  }
  editor.refresh();
}

}  // namespace

int fold_constants(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    return fold_constant_op(editor, i) || fold_permuted_dequantize(editor, i);
  });
}

int fold_dequantized_constants(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    if (!editor.op(i).is("dequantize") || !editor.is_constant(editor.op(i).inputs[0])) return false;
    const int integer = editor.op(i).inputs[0];
    const int folded = editor.add_dequantized(folded_name(editor, i), integer);
    replace_by(editor, i, folded);
    share_table(editor, integer, folded);
    return true;
  });
}

int merge_duplicates(Program& program) {
  ProgramEditor editor(program);
  int changes = 0;
  for (size_t i = 0; i < editor.op_count(); ++i) {
    if (!editor.op(i).is("quantize") && !editor.op(i).is("dequantize")) continue;
    const std::vector<int> users = editor.users(editor.op(i).inputs[0]);
    for (int other : users) {
      const ProgramOp& a = editor.op(i);
      const ProgramOp& b = editor.op(static_cast<size_t>(other));
      if (static_cast<size_t>(other) <= i || a.kind != b.kind || a.attributes != b.attributes)
        continue;
      const ProgramTensor& ya = editor.tensor(a.outputs[0]);
      const ProgramTensor& yb = editor.tensor(b.outputs[0]);
      if (ya.dtype != yb.dtype || ya.qparams != yb.qparams || editor.is_output(b.outputs[0]))
        continue;
      const int from = b.outputs[0], to = a.outputs[0];
      editor.erase(static_cast<size_t>(other));
      editor.replace_uses(from, to);
      ++changes;
    }
  }
  return changes;
}

namespace {

// Rewrites matmul(a, c) or matmul(a, dequantize(c)) with a constant matrix c.
bool matmul_to_linear(ProgramEditor& editor, size_t i) {
  if (!editor.op(i).is("matmul")) return false;
  const int b = editor.op(i).inputs[1];
  ProgramOp* dequantize = editor.find_producer(b, "dequantize");
  const int constant = dequantize == nullptr ? b : dequantize->inputs[0];
  if (!editor.is_constant(constant) || editor.tensor(constant).shape.size() != 2) return false;
  const ProgramTensor& c = editor.tensor(constant);
  const std::string name = c.name + "_transposed";
  const int transposed = c.stored ? editor.add_constant(name, permuted(*c.stored, {1, 0}))
                                  : editor.add_constant(name, permute_constant(c.data, {1, 0}),
                                                        permuted(c.qparams, {1, 0}));
  int weight = transposed;
  if (dequantize != nullptr) {
    ProgramOp copy = *editor.find_producer(b, "dequantize");
    ProgramTensor real = editor.tensor(b);
    real.name += "_transposed";
    std::swap(real.shape[0], real.shape[1]);
    weight = editor.add_tensor(std::move(real));
    copy.inputs = {transposed};
    copy.outputs = {weight};
    editor.insert(i++, std::move(copy));
  }
  editor.op(i).kind = "linear";
  editor.op(i).inputs = {editor.op(i).inputs[0], weight, -1};
  editor.refresh();
  return true;
}

// Rewrites add(linear(a, w), c) with a constant vector c of the linear's width.
bool add_to_bias(ProgramEditor& editor, size_t i) {
  const ProgramOp& add = editor.op(i);
  if (!add.is("add") || add.get(attr::kAlpha, 1) != 1 || add.has(attr::kPostMin) ||
      add.has(attr::kPostMax))
    return false;
  for (size_t side = 0; side < 2; ++side) {
    const int real = add.inputs[side], bias = add.inputs[1 - side];
    ProgramOp* linear = editor.find_producer(real, "linear");
    if (linear == nullptr || editor.only_user(real) < 0 || linear->inputs[2] >= 0 ||
        !linear->attributes.empty())
      continue;
    if (!editor.is_constant(bias) || editor.tensor(bias).dtype != DType::kFloat32) continue;
    if (editor.tensor(bias).shape != std::vector<int64_t>{editor.tensor(real).shape.back()})
      continue;
    linear->inputs[2] = bias;
    linear->outputs[0] = add.outputs[0];
    linear->sources.insert(linear->sources.end(), add.sources.begin(), add.sources.end());
    editor.erase(i);
    return true;
  }
  return false;
}

}  // namespace

int make_linear(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    return matmul_to_linear(editor, i) || add_to_bias(editor, i);
  });
}

void count_macs(Program& program) {
  for (Program& body : program.bodies) count_macs(body);
  for (ProgramOp& op : program.ops) {
    const OpContract* contract = find_contract(op.kind);
    if (contract == nullptr || !contract->has_macs) continue;
    const ProgramTensor& x = program.tensor(op.inputs[0]);
    const std::vector<int64_t>& w = program.tensor(op.inputs[1]).shape;
    const ProgramTensor& y = program.tensor(op.outputs[0]);
    if (op.is("matmul")) {
      op.macs = y.numel() * x.shape.back();
    } else if (op.is("attention")) {  // two products
      op.macs = (x.numel() + y.numel()) * w[2];
    } else {
      op.macs = (op.is("conv_transpose") || op.is("recurrent") ? x : y).numel() *
                product({w.begin() + 1, w.end()});
      if (op.is("recurrent") && op.has_input(5))
        op.macs += y.numel() * program.input(op, 5).shape.back();
    }
  }
}

}  // namespace octet
