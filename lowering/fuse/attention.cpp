// Stores caches whose rows are quantized as integers, and recognizes attention over a cache:
//
//   index_put(state, fake_quantize_dynamic(x), ...)            index_put(state, q, ...) * scales
//   softmax(mask + softcap(scale * q @ transpose(k))) @ v      attention(q, k, v, mask)
//       softcap(x) = c * tanh(x / c), or x
//       k, v: new values of states, or these with each head repeated for a group of q's heads
//
// A backend must accept the op, which reads the cache in place; else the parts, which it may know,
// remain.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {
namespace {

// What is found so far, from the last product to the first.
struct Attention {
  int q = -1, k = -1, v = -1, mask = -1, k_scale = -1, v_scale = -1;
  double scale = 1, softcap = 0;
  bool is_masked = false;
};

bool is_alike(const ProgramTensor& a, const ProgramTensor& b) {
  return a.shape == b.shape && a.sizes == b.sizes;
}

// The bare producer, if the tensor has no other reader.
const ProgramOp* find_part(ProgramEditor& editor, int tensor, OpKind kind) {
  return tensor < 0 || editor.only_user(tensor) < 0 ? nullptr
                                                    : editor.find_bare_producer(tensor, kind);
}

struct Scaled {
  int x;
  double factor;
};

// x * number or x / number.
std::optional<Scaled> find_scaled(ProgramEditor& editor, int tensor) {
  if (const ProgramOp* mul = find_part(editor, tensor, "mul"))
    for (size_t side = 0; side < 2; ++side)
      if (const std::optional<double> factor = editor.find_number(mul->inputs[side]))
        return Scaled{mul->inputs[1 - side], *factor};
  if (const ProgramOp* div = find_part(editor, tensor, "div"))
    if (const std::optional<double> divisor = editor.find_number(div->inputs[1]))
      return Scaled{div->inputs[0], 1 / *divisor};
  return std::nullopt;
}

// Goes from scores with a softcap to those without; elsewhere returns the tensor.
int skip_softcap(ProgramEditor& editor, int tensor, Attention& found) {
  const std::optional<Scaled> outer = find_scaled(editor, tensor);
  const ProgramOp* tanh =
      outer && editor.only_user(outer->x) >= 0 ? editor.find_producer(outer->x, "unary") : nullptr;
  if (tanh == nullptr || tanh->get(attr::kFn) != "tanh" || outer->factor <= 0) return tensor;
  const std::optional<Scaled> inner = find_scaled(editor, tanh->inputs[0]);
  if (!inner) return tensor;
  // scale * x for scale = softcap * factor, then tanh(. / softcap)
  found.softcap = outer->factor;
  found.scale = outer->factor * inner->factor;
  return inner->x;
}

// Goes from the scores to the product, past the scale and the softcap.
int skip_scale(ProgramEditor& editor, int tensor, Attention& found) {
  tensor = skip_softcap(editor, tensor, found);
  for (std::optional<Scaled> part = find_scaled(editor, tensor); part;
       part = find_scaled(editor, tensor)) {
    found.scale *= part->factor;
    tensor = part->x;
  }
  return tensor;
}

// Whether the op swaps the last two of four dimensions.
bool is_transposition(const ProgramOp* permute) {
  return permute != nullptr && permute->get(attr::kDims) == std::vector<int64_t>{0, 1, 3, 2};
}

// Returns x [N,G,S,D] if the tensor [N,H,S,D] has each head of x as often as H contains G, next to
// each other; else the tensor.
int skip_repeated_heads(ProgramEditor& editor, int tensor) {
  const ProgramOp* joined = editor.find_producer(tensor, "reshape");
  const ProgramOp* wide =
      joined == nullptr ? nullptr : editor.find_producer(joined->inputs[0], "expand");
  const ProgramOp* apart =
      wide == nullptr ? nullptr : editor.find_producer(wide->inputs[0], "reshape");
  if (apart == nullptr) return tensor;
  const std::vector<int64_t>& x = editor.tensor(apart->inputs[0]).shape;
  const std::vector<int64_t>& y = editor.tensor(tensor).shape;
  if (x.size() != 4 || y.size() != 4 || x[1] == 0 || y[1] % x[1] != 0) return tensor;
  const bool fits =
      editor.tensor(wide->inputs[0]).shape == std::vector<int64_t>{x[0], x[1], 1, x[2], x[3]} &&
      editor.tensor(joined->inputs[0]).shape ==
          std::vector<int64_t>{x[0], x[1], y[1] / x[1], x[2], x[3]} &&
      y == std::vector<int64_t>{x[0], y[1], x[2], x[3]};
  return fits ? apart->inputs[0] : tensor;
}

bool is_next_state(const Program& program, int tensor) {
  return std::ranges::any_of(program.states,
                             [&](const ProgramState& state) { return state.next == tensor; });
}

// The integers and scales of quantize_states(): dequantize(integers) * scales, both new values of
// states.
std::optional<std::pair<int, int>> find_scaled_state(ProgramEditor& editor, int tensor) {
  const ProgramOp* mul = editor.find_bare_producer(tensor, "mul");
  const ProgramOp* dequantize =
      mul == nullptr ? nullptr : editor.find_producer(mul->inputs[0], "dequantize");
  if (dequantize == nullptr || !is_next_state(editor.program(), dequantize->inputs[0]) ||
      !is_next_state(editor.program(), mul->inputs[1]))
    return std::nullopt;
  return std::pair(dequantize->inputs[0], mul->inputs[1]);
}

// Whether k and v are new values of states. Replaces those that are stored as integers by these.
bool find_states(ProgramEditor& editor, Attention& found) {
  const std::optional<std::pair<int, int>> k = find_scaled_state(editor, found.k),
                                           v = find_scaled_state(editor, found.v);
  if (!k || !v)
    return is_next_state(editor.program(), found.k) && is_next_state(editor.program(), found.v);
  std::tie(found.k, found.k_scale) = *k;
  std::tie(found.v, found.v_scale) = *v;
  return true;
}

// Finds q, k, scale and mask in what the softmax reads; false where that is something else.
bool find_scores(ProgramEditor& editor, int scores, Attention& found) {
  if (const ProgramOp* add = find_part(editor, scores, "add")) {
    // the scores come from a product, the mask need not
    const auto leads_to_product = [&](int tensor) {
      Attention tried;
      return find_part(editor, skip_scale(editor, tensor, tried), "matmul") != nullptr;
    };
    const size_t side = leads_to_product(add->inputs[0]) ? 0 : 1;
    found.mask = add->inputs[1 - side];
    if (!is_alike(editor.tensor(add->inputs[side]), editor.tensor(scores))) return false;
    scores = add->inputs[side];
  }
  const ProgramOp* product = find_part(editor, skip_scale(editor, scores, found), "matmul");
  if (product == nullptr) return false;
  const ProgramOp* transposed = editor.find_producer(product->inputs[1], "permute");
  if (!is_transposition(transposed)) return false;
  found.q = product->inputs[0];
  found.k = skip_repeated_heads(editor, transposed->inputs[0]);
  return editor.tensor(transposed->inputs[0]).shape.size() == 4;
}

// Whether these are floats with the fixed sizes of a cache, and q as wide.
bool fits_cache(ProgramEditor& editor, const Attention& found) {
  const ProgramTensor &q = editor.tensor(found.q), &k = editor.tensor(found.k),
                      &v = editor.tensor(found.v);
  const auto is_fixed = [&](size_t d) { return q.sizes.empty() || q.sizes[d].is_number(); };
  return q.dtype == DType::kFloat32 && k.dtype == DType::kFloat32 && v.dtype == DType::kFloat32 &&
         (found.mask < 0 || editor.tensor(found.mask).dtype == DType::kFloat32) &&
         q.shape.size() == 4 && k.shape.size() == 4 && v.shape.size() == 4 &&
         q.shape[0] == k.shape[0] && k.shape[1] == v.shape[1] && is_fixed(0) && is_fixed(1) &&
         is_fixed(3);
}

std::optional<Attention> find_attention(ProgramEditor& editor, const ProgramOp& op) {
  if (!op.is("matmul") || !op.attributes.empty()) return std::nullopt;
  const ProgramOp* softmax =
      editor.only_user(op.inputs[0]) < 0 ? nullptr : editor.find_producer(op.inputs[0], "softmax");
  if (softmax == nullptr) return std::nullopt;
  const int64_t dim = softmax->get(attr::kDim);
  Attention found;
  found.is_masked = softmax->get(attr::kMasked);
  found.v = skip_repeated_heads(editor, op.inputs[1]);
  if ((dim != -1 && dim != 3) || editor.tensor(op.inputs[1]).shape.size() != 4 ||
      !find_scores(editor, softmax->inputs[0], found) || !fits_cache(editor, found) ||
      !find_states(editor, found))
    return std::nullopt;
  return found;
}

// ---- states of integers

std::vector<SizeExpr> formulas_of(const std::vector<SizeExpr>& sizes,
                                  const std::vector<int64_t>& numbers) {
  return sizes.empty() ? std::vector<SizeExpr>(numbers.begin(), numbers.end()) : sizes;
}

// Whether the op rounds each row to int8 with zero point 0.
bool rounds_rows(ProgramEditor& editor, const ProgramOp& op) {
  const ProgramTensor& x = editor.tensor(op.inputs[0]);
  const auto open = op.sizes.find(attr::kBlocks);
  const std::vector<SizeExpr> blocks = formulas_of(
      open == op.sizes.end() ? std::vector<SizeExpr>() : open->second, op.get(attr::kBlocks));
  std::vector<SizeExpr> rows = formulas_of(x.sizes, x.shape);
  if (!rows.empty()) rows.back() = 1;
  const int64_t low = op.get(attr::kQuantMin), high = op.get(attr::kQuantMax);
  return !rows.empty() && blocks == rows && op.get(attr::kMapping).starts_with("symmetric") &&
         op.get(attr::kZeroPoint) == 0 && low >= -128 && low < 0 && high > 0 && high <= 127;
}

// The state whose rows the op writes, if nothing else reads its value and it starts as zeros; else
// null.
ProgramState* find_written(ProgramEditor& editor, const ProgramOp& op) {
  if (!op.is("index_put") || op.get(attr::kAccumulate)) return nullptr;
  const std::vector<int64_t>& shape = editor.tensor(op.inputs[0]).shape;
  const std::vector<int64_t>& rows = editor.tensor(op.inputs[1]).shape;
  if (shape.empty() || rows.empty() || rows.back() != shape.back() ||
      op.has_input(shape.size() + 1) || editor.only_user(op.inputs[0]) < 0)
    return nullptr;
  for (ProgramState& state : editor.program().states)
    if (state.value == op.inputs[0] && state.next == op.outputs[0] && state.start < 0)
      return &state;
  return nullptr;
}

ProgramOp op_after(const ProgramOp& op, OpKind kind, std::vector<int> inputs,
                   std::vector<int> outputs) {
  ProgramOp made;
  made.kind = kind.name;
  made.name = op.name + "_" + made.kind;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  made.module = op.module;
  return made;
}

}  // namespace

int quantize_states(Program& program) {
  const int changes = rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    ProgramState* state = find_written(editor, editor.op(i));
    const ProgramOp* found =
        state == nullptr ? nullptr
                         : editor.find_producer(editor.op(i).inputs[1], "fake_quantize_dynamic");
    if (found == nullptr || !rounds_rows(editor, *found)) return false;
    const ProgramOp rounding = *found;
    const int next = state->next, value = state->value;
    const auto integers = [&](ProgramTensor tensor) {
      tensor.dtype = DType::kInt8;
      tensor.qparams = TensorQParams{{1}, {0}};
      return tensor;
    };
    const auto add = [&](ProgramTensor tensor, const char* ending) {
      tensor.name += ending;
      if (tensor.role == ProgramTensor::Role::kOutput)
        tensor.role = ProgramTensor::Role::kIntermediate;
      return editor.add_tensor(std::move(tensor));
    };
    const auto scales = [](ProgramTensor tensor) {  // one for each row
      tensor.shape.back() = 1;
      if (!tensor.sizes.empty()) tensor.sizes.back() = 1;
      if (!is_symbolic(tensor.sizes)) tensor.sizes.clear();
      return tensor;
    };
    const ProgramTensor rows = editor.tensor(rounding.outputs[0]), after = editor.tensor(next);
    const int q = add(integers(rows), "_q"), q_scale = add(scales(rows), "_scale"),
              kept = add(integers(after), "_q"), kept_scale = add(scales(after), "_scale"),
              real = add(after, "_real"), value_scale = add(scales(editor.tensor(value)), "_scale");
    editor.tensor(value) = integers(editor.tensor(value));
    state->next = kept;
    editor.program().states.push_back(
        {.name = state->name + ".scale", .value = value_scale, .next = kept_scale});

    ProgramOp quantize = op_after(rounding, "quantize_dynamic", rounding.inputs, {q, q_scale});
    quantize.attributes = rounding.attributes;
    quantize.attributes.erase(attr::kZeroPoint);
    quantize.attributes.erase(attr::kBlocks);
    ProgramOp put = editor.op(i), put_scale = put;
    put.inputs[1] = q;
    put.outputs = {kept};
    put_scale.name += "_scale";
    put_scale.inputs[0] = value_scale;
    put_scale.inputs[1] = q_scale;
    put_scale.outputs = {kept_scale};
    editor.op(i) = op_after(put, "mul", {real, kept_scale}, {next});
    editor.insert(i, op_after(put, "dequantize", {kept}, {real}));
    editor.insert(i, std::move(put_scale));
    editor.insert(i, std::move(put));
    editor.insert(i, std::move(quantize));
    return true;
  });
  if (changes != 0) ProgramEditor(program).compact();
  return changes;
}

int make_attention(Program& program,
                   const std::function<bool(const Program&, const ProgramOp&)>& is_taken) {
  const int changes = rewrite_ops(program, [&](ProgramEditor& editor, size_t i) {
    const std::optional<Attention> found = find_attention(editor, editor.op(i));
    if (!found) return false;
    ProgramOp op = editor.op(i);
    op.kind = "attention";
    op.inputs = {found->q, found->k, found->v, found->mask};
    if (found->k_scale >= 0) op.inputs.insert(op.inputs.end(), {found->k_scale, found->v_scale});
    op.attributes = {{attr::kScale, found->scale}};
    if (found->softcap != 0) op.attributes[attr::kSoftcap] = found->softcap;
    if (found->is_masked) op.attributes[attr::kMasked] = true;
    if (!is_taken(program, op)) return false;
    editor.op(i) = std::move(op);
    editor.refresh();
    return true;
  });
  if (changes != 0) ProgramEditor(program).compact();
  return changes;
}

}  // namespace octet
