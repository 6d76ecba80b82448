// Rotary position embeddings, as models write them, become one op:
//
//   x * cos + cat(-x[..., half:], x[..., :half]) * sin       rotary(x, cos, sin)
#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {
namespace {

bool is_last(int64_t dim, size_t rank) {
  return dim == -1 || dim == static_cast<int64_t>(rank) - 1;
}

// x when the tensor is `half` elements of x's last dimension, from `start` on; -1 otherwise.
int find_half(ProgramEditor& editor, int tensor, int64_t start, int64_t half) {
  const ProgramOp* slice = editor.find_producer(tensor, "slice");
  if (slice == nullptr || slice->integer("start", 0) != start || slice->integer("step", 1) != 1 ||
      !is_last(slice->integer("dim", 0), editor.tensor(tensor).shape.size()) ||
      editor.tensor(tensor).shape.back() != half ||
      editor.tensor(slice->inputs[0]).shape.back() != 2 * half)
    return -1;
  return slice->inputs[0];
}

// x when the tensor is cat(-x[..., half:], x[..., :half]); -1 otherwise.
int find_turned(ProgramEditor& editor, int tensor) {
  const ProgramOp* cat = editor.find_producer(tensor, "cat");
  const std::vector<int64_t>& shape = editor.tensor(tensor).shape;
  if (cat == nullptr || cat->inputs.size() != 2 || shape.empty() || shape.back() < 4 ||
      shape.back() % 2 != 0 || !is_last(cat->integer("dim", 0), shape.size()))
    return -1;
  const ProgramOp* negative = editor.find_producer(cat->inputs[0], "unary");
  if (negative == nullptr || negative->text("fn", "") != "neg") return -1;
  const int64_t half = shape.back() / 2;
  const int x = find_half(editor, negative->inputs[0], half, half);
  return x >= 0 && find_half(editor, cat->inputs[1], 0, half) == x ? x : -1;
}

bool has_shape_of(const ProgramTensor& a, const ProgramTensor& b) {
  return a.shape == b.shape && a.sizes == b.sizes;
}

// Its last dimension is x's, fixed.
bool has_width_of(const ProgramTensor& factor, const ProgramTensor& x) {
  return factor.dtype == DType::kFloat32 && !factor.shape.empty() &&
         factor.shape.back() == x.shape.back() &&
         (factor.sizes.empty() || factor.sizes.back().is_number()) &&
         factor.shape.size() <= x.shape.size();
}

bool make_one(ProgramEditor& editor, size_t i) {
  if (editor.op(i).kind != "add" || !editor.op(i).attributes.empty()) return false;
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
