// The formulas of the GELU, as models write them, become one op:
//
//   0.5 * x * (1 + tanh(0.797885 * (x + 0.044715 * pow(x, 3))))       gelu_tanh(x)
//   0.5 * x * (1 + erf(x / 1.414214))                                 gelu(x)
#include <cmath>
#include <optional>

#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {
namespace {

bool is_number(const ProgramEditor& editor, int tensor, double number) {
  const std::optional<double> found = editor.find_number(tensor);
  return found && std::fabs(*found - number) <= 1e-6 * number;
}

// x when the tensor is x * number, or x + number, without a clamp; -1 otherwise.
int find_other(ProgramEditor& editor, int tensor, const char* kind, double number) {
  const ProgramOp* op = editor.find_bare_producer(tensor, kind);
  if (op == nullptr) return -1;
  for (size_t side = 0; side < 2; ++side)
    if (is_number(editor, op->inputs[side], number)) return op->inputs[1 - side];
  return -1;
}

// The function's operand when the tensor is made by it; -1 otherwise.
int find_argument(ProgramEditor& editor, int tensor, const char* fn, double alpha = 0) {
  const ProgramOp* op = editor.find_producer(tensor, "unary");
  return op != nullptr && op->text("fn", "") == fn && op->real("alpha", 0) == alpha ? op->inputs[0]
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

// x when the tensor is erf(x / sqrt(2)); -1 otherwise.
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

// x of 1 + tanh(...) or 1 + erf(...) of the formulas.
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
  if (op.kind != "mul" || !op.attributes.empty()) return false;
  for (size_t side = 0; side < 2; ++side) {
    const Gate gate = find_gate(editor, op.inputs[side]);
    if (gate.x < 0 || find_other(editor, op.inputs[1 - side], "mul", 0.5) != gate.x ||
        editor.tensor(gate.x).dtype != DType::kFloat32)
      continue;
    editor.op(i).kind = "unary";
    editor.op(i).inputs = {gate.x};
    editor.op(i).attributes = {{"fn", std::string(gate.function)}};
    editor.refresh();
    return true;
  }
  return false;
}

}  // namespace

int make_gelu(Program& program) { return rewrite_ops(program, make_one_gelu); }

}  // namespace octet
