// Recognizes formulas that models spell out, and replaces each by one op:
//
//   0.5 * x * (1 + tanh(0.797885 * (x + 0.044715 * pow(x, 3))))       gelu_tanh(x)
//   0.5 * x * (1 + erf(x / 1.414214))                                 gelu(x)
//   x * rsqrt(mean(x * x, last dimensions) + eps)                     rms_norm(x)
//       x / sqrt(...), pow(..., 2), pow(..., -0.5)
//   rms_norm(x) * weight                                              rms_norm(x, weight)
//   x * cos + cat(-x[..., half:], x[..., :half]) * sin                rotary(x, cos, sin)
#include <algorithm>
#include <cmath>
#include <optional>

#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {

// ---- GELU

namespace {

bool is_number(const ProgramEditor& editor, int tensor, double number) {
  const std::optional<double> found = editor.find_number(tensor);
  return found && std::fabs(*found - number) <= 1e-6 * number;
}

// Returns x if the tensor is x * number or x + number without a clamp; else -1.
int find_other(ProgramEditor& editor, int tensor, OpKind kind, double number) {
  const ProgramOp* op = editor.find_bare_producer(tensor, kind);
  if (op == nullptr) return -1;
  for (size_t side = 0; side < 2; ++side)
    if (is_number(editor, op->inputs[side], number)) return op->inputs[1 - side];
  return -1;
}

// Returns the operand of the function if it makes the tensor; else -1.
int find_argument(ProgramEditor& editor, int tensor, const char* fn, double alpha = 0) {
  const ProgramOp* op = editor.find_producer(tensor, "unary");
  return op != nullptr && op->get(attr::kFn) == fn && op->get(attr::kAlpha, 0) == alpha
             ? op->inputs[0]
             : -1;
}

// Whether the tensor is x * x * x.
bool is_cube(ProgramEditor& editor, int tensor, int x) {
  const ProgramOp* outer = editor.find_bare_producer(tensor, "mul");
  if (outer == nullptr) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ProgramOp* inner = editor.find_bare_producer(outer->inputs[side], "mul");
    if (outer->inputs[1 - side] == x && inner != nullptr && inner->inputs[0] == x &&
        inner->inputs[1] == x)
      return true;
  }
  return false;
}

// Returns x if the tensor is erf(x / sqrt(2)); else -1.
int find_error_function(ProgramEditor& editor, int tensor) {
  const int inside = find_argument(editor, tensor, "erf");
  if (inside < 0) return -1;
  const ProgramOp* ratio = editor.find_bare_producer(inside, "div");
  if (ratio != nullptr && is_number(editor, ratio->inputs[1], std::sqrt(2.0)))
    return ratio->inputs[0];
  return find_other(editor, inside, "mul", 1 / std::sqrt(2.0));
}

struct Gate {
  int x = -1;  // none
  const char* function = nullptr;
};

// Finds x in 1 + tanh(...) or 1 + erf(...) of the formulas.
Gate find_gate(ProgramEditor& editor, int tensor) {
  const int part = find_other(editor, tensor, "add", 1);
  if (part < 0) return {};
  if (const int x = find_error_function(editor, part); x >= 0) return {x, "gelu"};
  const int inside = find_argument(editor, part, "tanh");
  const int sum = inside < 0 ? -1 : find_other(editor, inside, "mul", std::sqrt(2 / M_PI));
  const ProgramOp* add = editor.find_bare_producer(sum, "add");
  if (add == nullptr) return {};
  for (size_t side = 0; side < 2; ++side) {
    const int x = add->inputs[side];
    const int cube = find_other(editor, add->inputs[1 - side], "mul", 0.044715);
    if (cube >= 0 && is_cube(editor, cube, x)) return {x, "gelu_tanh"};
  }
  return {};
}

bool make_one_gelu(ProgramEditor& editor, size_t i) {
  const ProgramOp& op = editor.op(i);
  if (!op.is("mul") || !op.attributes.empty()) return false;
  for (size_t side = 0; side < 2; ++side) {
    const Gate gate = find_gate(editor, op.inputs[side]);
    if (gate.x < 0 || find_other(editor, op.inputs[1 - side], "mul", 0.5) != gate.x ||
        editor.tensor(gate.x).dtype != DType::kFloat32)
      continue;
    editor.op(i).kind = "unary";
    editor.op(i).inputs = {gate.x};
    editor.op(i).attributes = {{attr::kFn, std::string(gate.function)}};
    editor.refresh();
    return true;
  }
  return false;
}

}  // namespace

int make_gelu(Program& program) { return rewrite_ops(program, make_one_gelu); }

// ---- RMS norm

namespace {

// The producer, if it has that kind, no clamp and no alpha.
const ProgramOp* find_plain(ProgramEditor& editor, int tensor, OpKind kind) {
  const ProgramOp* op = editor.find_producer(tensor, kind);
  const bool is_plain = op != nullptr && !op->has(attr::kPostMin) && !op->has(attr::kPostMax) &&
                        (op->is("unary") || op->get(attr::kAlpha, 1) == 1);
  return is_plain ? op : nullptr;
}

bool is_function(const ProgramOp& unary, const char* name, double power) {
  const std::string fn = unary.get(attr::kFn);
  return fn == name || (fn == "pow" && unary.get(attr::kAlpha, 0) == power);
}

// Returns x if the tensor is x * x or pow(x, 2); else -1.
int find_squared(ProgramEditor& editor, int tensor) {
  if (const ProgramOp* mul = find_plain(editor, tensor, "mul"))
    return mul->inputs[0] == mul->inputs[1] ? mul->inputs[0] : -1;
  const ProgramOp* unary = find_plain(editor, tensor, "unary");
  return unary != nullptr && is_function(*unary, "square", 2) ? unary->inputs[0] : -1;
}

// The number of dimensions that the op reduces and keeps as 1, if these are the last ones and their
// sizes are fixed.
std::optional<int64_t> find_reduced(ProgramEditor& editor, const ProgramOp& mean) {
  const ProgramTensor& x = editor.tensor(mean.inputs[0]);
  const int64_t rank = std::ssize(x.shape);
  std::vector<int64_t> dims = mean.get(attr::kDims);
  for (int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  std::ranges::sort(dims);
  if (!mean.get(attr::kKeepdim) || dims.empty()) return std::nullopt;
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

// Matches `tensor` = sqrt(mean(x * x) + eps), or its reciprocal.
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
  const bool is_div = op.is("div");
  if ((!op.is("mul") && !is_div) || !op.attributes.empty()) return std::nullopt;
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
  op.attributes = {{attr::kNormalizedDims, norm->dims}, {attr::kEps, norm->eps}};
  editor.refresh();
  return true;
}

// Whether the tensor is a constant with the normalized dimensions, after dimensions of size 1.
bool is_weight(ProgramEditor& editor, int tensor, const ProgramOp& norm) {
  if (!editor.is_constant(tensor) || editor.tensor(tensor).dtype != DType::kFloat32 ||
      !editor.tensor(tensor).data.defined())
    return false;
  const std::vector<int64_t>& x = editor.tensor(norm.inputs[0]).shape;
  const std::vector<int64_t>& w = editor.tensor(tensor).shape;
  const int64_t dims = norm.get(attr::kNormalizedDims);
  const std::vector<int64_t> normalized(x.end() - dims, x.end());
  return std::ssize(w) >= dims && w.size() <= x.size() &&
         std::equal(normalized.begin(), normalized.end(), w.end() - dims) &&
         editor.tensor(tensor).numel() == product(normalized);
}

bool take_weight(ProgramEditor& editor, size_t i) {
  const ProgramOp mul = editor.op(i);
  if (!mul.is("mul") || !mul.attributes.empty()) return false;
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

// ---- rotary position embeddings

namespace {

bool is_last(int64_t dim, size_t rank) {
  return dim == -1 || dim == static_cast<int64_t>(rank) - 1;
}

// Returns x if the tensor is `half` elements of x's last dimension from `start`; else -1.
int find_half(ProgramEditor& editor, int tensor, int64_t start, int64_t half) {
  const ProgramOp* slice = editor.find_producer(tensor, "slice");
  if (slice == nullptr || slice->get(attr::kStart) != start || slice->get(attr::kStep) != 1 ||
      !is_last(slice->get(attr::kDim), editor.tensor(tensor).shape.size()) ||
      editor.tensor(tensor).shape.back() != half ||
      editor.tensor(slice->inputs[0]).shape.back() != 2 * half)
    return -1;
  return slice->inputs[0];
}

// Returns x if the tensor is cat(-x[..., half:], x[..., :half]); else -1.
int find_turned(ProgramEditor& editor, int tensor) {
  const ProgramOp* cat = editor.find_producer(tensor, "cat");
  const std::vector<int64_t>& shape = editor.tensor(tensor).shape;
  if (cat == nullptr || cat->inputs.size() != 2 || shape.empty() || shape.back() < 4 ||
      shape.back() % 2 != 0 || !is_last(cat->get(attr::kDim), shape.size()))
    return -1;
  const ProgramOp* negative = editor.find_producer(cat->inputs[0], "unary");
  if (negative == nullptr || negative->get(attr::kFn) != "neg") return -1;
  const int64_t half = shape.back() / 2;
  const int x = find_half(editor, negative->inputs[0], half, half);
  return x >= 0 && find_half(editor, cat->inputs[1], 0, half) == x ? x : -1;
}

bool has_shape_of(const ProgramTensor& a, const ProgramTensor& b) {
  return a.shape == b.shape && a.sizes == b.sizes;
}

// Whether its last dimension is fixed and equals that of x.
bool has_width_of(const ProgramTensor& factor, const ProgramTensor& x) {
  return factor.dtype == DType::kFloat32 && !factor.shape.empty() &&
         factor.shape.back() == x.shape.back() &&
         (factor.sizes.empty() || factor.sizes.back().is_number()) &&
         factor.shape.size() <= x.shape.size();
}

bool make_one(ProgramEditor& editor, size_t i) {
  if (!editor.op(i).is("add") || !editor.op(i).attributes.empty()) return false;
  for (size_t side = 0; side < 2; ++side) {
    const ProgramOp* straight = editor.find_bare_producer(editor.op(i).inputs[side], "mul");
    const ProgramOp* turned = editor.find_bare_producer(editor.op(i).inputs[1 - side], "mul");
    if (straight == nullptr || turned == nullptr) return false;
    for (size_t k = 0; k < 2; ++k) {
      const int x = find_turned(editor, turned->inputs[k]), sine = turned->inputs[1 - k];
      if (x < 0 || (straight->inputs[0] != x && straight->inputs[1] != x)) continue;
      const int cosine = straight->inputs[straight->inputs[0] == x ? 1 : 0];
      const ProgramTensor& given = editor.tensor(x);
      if (given.dtype != DType::kFloat32 || !has_width_of(editor.tensor(cosine), given) ||
          !has_shape_of(editor.tensor(cosine), editor.tensor(sine)) ||
          !has_width_of(editor.tensor(sine), given) ||
          !has_shape_of(editor.tensor(editor.op(i).outputs[0]), given))
        continue;
      editor.op(i).kind = "rotary";
      editor.op(i).inputs = {x, cosine, sine};
      editor.refresh();
      return true;
    }
  }
  return false;
}

}  // namespace

int make_rotary(Program& program) { return rewrite_ops(program, make_one); }

}  // namespace octet
