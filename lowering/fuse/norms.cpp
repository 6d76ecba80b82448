// The formula of an RMS norm, as models write it, becomes one op:
//
//   x * rsqrt(mean(x * x, last dimensions) + eps)            rms_norm(x)
//       x / sqrt(...), pow(..., 2), pow(..., -0.5)
//   rms_norm(x) * weight                                     rms_norm(x, weight)
#include <algorithm>
#include <optional>

#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {
namespace {

// The op that makes the tensor when it is of that kind and has no clamp and no alpha.
const ProgramOp* find_plain(ProgramEditor& editor, int tensor, const char* kind) {
  const ProgramOp* op = editor.find_producer(tensor, kind);
  const bool is_plain = op != nullptr && !op->attributes.contains("post_min") &&
                        !op->attributes.contains("post_max") &&
                        (op->kind == "unary" || op->real("alpha", 1) == 1);
  return is_plain ? op : nullptr;
}

bool is_function(const ProgramOp& unary, const char* name, double power) {
  const std::string fn = unary.text("fn", "");
  return fn == name || (fn == "pow" && unary.real("alpha", 0) == power);
}

// x behind x * x or its second power; -1 otherwise.
int find_squared(ProgramEditor& editor, int tensor) {
  if (const ProgramOp* mul = find_plain(editor, tensor, "mul"))
    return mul->inputs[0] == mul->inputs[1] ? mul->inputs[0] : -1;
  const ProgramOp* unary = find_plain(editor, tensor, "unary");
  return unary != nullptr && is_function(*unary, "square", 2) ? unary->inputs[0] : -1;
}

// How many last dimensions the op reduces and keeps as 1, when those are all it reduces and their
// sizes are fixed.
std::optional<int64_t> find_reduced(ProgramEditor& editor, const ProgramOp& mean) {
  const ProgramTensor& x = editor.tensor(mean.inputs[0]);
  const int64_t rank = std::ssize(x.shape);
  std::vector<int64_t> dims = mean.integers("dims");
  for (int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  std::sort(dims.begin(), dims.end());
  if (!mean.flag("keepdim") || dims.empty()) return std::nullopt;
  const int64_t first = rank - std::ssize(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<size_t>(dims[i]);
    if (dims[i] != first + static_cast<int64_t>(i)) return std::nullopt;
    if (!x.sizes.empty() && !x.sizes[d].is_number()) return std::nullopt;
  }
  return std::ssize(dims);
}

struct RmsNorm {
  int x = -1;
  int64_t dims = 0;
  double eps = 0;
};

// What `tensor` = sqrt(mean(x * x) + eps), or one divided by that, is of.
std::optional<RmsNorm> find_root(ProgramEditor& editor, int tensor, const char* function,
                                 double power) {
  const ProgramOp* root = find_plain(editor, tensor, "unary");
  if (root == nullptr || !is_function(*root, function, power)) return std::nullopt;
  const ProgramOp* add = find_plain(editor, root->inputs[0], "add");
  if (add == nullptr) return std::nullopt;
  for (size_t side = 0; side < 2; ++side) {
    const std::optional<double> eps = editor.find_number(add->inputs[1 - side]);
    const ProgramOp* mean = find_plain(editor, add->inputs[side], "mean");
    if (!eps || mean == nullptr) continue;
    const int x = find_squared(editor, mean->inputs[0]);
    const std::optional<int64_t> dims = x < 0 ? std::nullopt : find_reduced(editor, *mean);
    if (dims && editor.tensor(x).dtype == DType::kFloat32) return RmsNorm{x, *dims, *eps};
  }
  return std::nullopt;
}

std::optional<RmsNorm> find_norm(ProgramEditor& editor, const ProgramOp& op) {
  const bool is_div = op.kind == "div";
  if ((op.kind != "mul" && !is_div) || !op.attributes.empty()) return std::nullopt;
  for (size_t side = 0; side < (is_div ? 1U : 2U); ++side) {
    const std::optional<RmsNorm> norm = is_div
                                            ? find_root(editor, op.inputs[1], "sqrt", 0.5)
                                            : find_root(editor, op.inputs[1 - side], "rsqrt", -0.5);
    if (norm && norm->x == op.inputs[side]) return norm;
  }
  return std::nullopt;
}

bool make_norm(ProgramEditor& editor, size_t i) {
  const std::optional<RmsNorm> norm = find_norm(editor, editor.op(i));
  if (!norm) return false;
  ProgramOp& op = editor.op(i);
  op.kind = "rms_norm";
  op.inputs = {norm->x};
  op.attributes = {{"normalized_dims", norm->dims}, {"eps", norm->eps}};
  editor.refresh();
  return true;
}

// A constant that has the normalized dimensions, and others of 1 in front.
bool is_weight(ProgramEditor& editor, int tensor, const ProgramOp& norm) {
  if (!editor.is_constant(tensor) || editor.tensor(tensor).dtype != DType::kFloat32 ||
      !editor.tensor(tensor).data.defined())
    return false;
  const std::vector<int64_t>& x = editor.tensor(norm.inputs[0]).shape;
  const std::vector<int64_t>& w = editor.tensor(tensor).shape;
  const int64_t dims = norm.integer("normalized_dims", 1);
  const std::vector<int64_t> normalized(x.end() - dims, x.end());
  return std::ssize(w) >= dims && w.size() <= x.size() &&
         std::equal(normalized.begin(), normalized.end(), w.end() - dims) &&
         editor.tensor(tensor).numel() == product(normalized);
}

bool take_weight(ProgramEditor& editor, size_t i) {
  const ProgramOp mul = editor.op(i);
  if (mul.kind != "mul" || !mul.attributes.empty()) return false;
  for (size_t side = 0; side < 2; ++side) {
    ProgramOp* norm = editor.find_producer(mul.inputs[side], "rms_norm");
    const int weight = mul.inputs[1 - side];
    if (norm == nullptr || norm->has_input(1) || editor.only_user(mul.inputs[side]) < 0 ||
        !is_weight(editor, weight, *norm))
      continue;
    norm->inputs = {norm->inputs[0], weight};
    norm->outputs[0] = mul.outputs[0];
    norm->sources.insert(norm->sources.end(), mul.sources.begin(), mul.sources.end());
    editor.erase(i);
    return true;
  }
  return false;
}

}  // namespace

int make_rms_norm(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    return make_norm(editor, i) || take_weight(editor, i);
  });
}

}  // namespace octet
