// Lists the steps, and implements those that let ops compute on integers.
#include "lowering/fuse/fuse.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "lowering/fuse/program_editor.h"
#include "lowering/program/quantized_constants.h"

namespace octet {
namespace {

bool stores_alike(const ProgramTensor& a, const ProgramTensor& b) {
  return a.dtype == b.dtype && a.qparams == b.qparams;
}

// Adds the sources of an op that is merged into `op`.
void add_sources(ProgramOp& op, const ProgramOp& swallowed) {
  op.sources.insert(op.sources.end(), swallowed.sources.begin(), swallowed.sources.end());
}

// Excludes ops with a second output, the indices: quantization can make elements equal, which
// changes the index of a maximum.
bool is_movement(const ProgramOp& op) {
  const OpContract* contract = find_contract(op.kind);
  return contract != nullptr && contract->nature == Nature::kMovement && op.outputs.size() == 1 &&
         (!op.is("pad") || op.get(attr::kValue) == 0);
}

// The integer tensor that a dequantize converts to the tensor `index`; else -1.
int integer_behind(ProgramEditor& editor, int index) {
  const ProgramOp* dequantize = editor.find_producer(index, "dequantize");
  return dequantize == nullptr ? -1 : dequantize->inputs[0];
}

// Whether elements may move without changing the parameters: these are per tensor.
bool moves_freely(const ProgramTensor& tensor) {
  return tensor.qparams && tensor.qparams->is_per_tensor();
}

// The range that a quantize or requantize clamps to.
IntegerRange range_of(const ProgramOp& quantize, const ProgramTensor& result) {
  const IntegerRange whole = integer_range(result.dtype);
  return {quantize.get(attr::kQuantMin, whole.min), quantize.get(attr::kQuantMax, whole.max)};
}

bool holds(const IntegerRange& range, const TensorQParams& qparams) {
  return std::ranges::all_of(qparams.zero_point,
                             [&](int32_t zero) { return range.min <= zero && zero <= range.max; });
}

// A range of real values, for one scale.
struct RealRange {
  double low, high;
};
RealRange real_range(const IntegerRange& range, const TensorQParams& qparams) {
  const auto real = [&](int64_t q) {
    return double{qparams.scale[0]} * static_cast<double>(q - qparams.zero_point[0]);
  };
  return {real(range.min), real(range.max)};
}

// Whether the ops that make the tensor give only integers in `range`.
bool lies_within(ProgramEditor& editor, int index, const IntegerRange& range) {
  for (int maker = editor.producer(index); maker >= 0; maker = editor.producer(index)) {
    const ProgramOp& op = editor.op(static_cast<size_t>(maker));
    const ProgramTensor& made = editor.tensor(index);
    if (op.is("quantize") || op.is("requantize")) {
      const IntegerRange own = range_of(op, made);
      return own.min >= range.min && own.max <= range.max;
    }
    if (!is_movement(op) || op.inputs.size() != 1) {
      const RealRange ends = real_range(range, *made.qparams);
      return op.get(attr::kPostMin, -INFINITY) >= ends.low &&
             op.get(attr::kPostMax, INFINITY) <= ends.high;
    }
    if (!holds(range, *made.qparams)) return false;  // the zeros of a pad
    index = op.inputs[0];
  }
  return false;
}

}  // namespace

int sink_dequantize(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    if (!is_movement(editor.op(i))) return false;
    const size_t count =
        find_contract(editor.op(i).kind)->integer_input_count(editor.op(i).inputs.size());
    std::vector<int> integers;
    for (size_t k = 0; k < count; ++k)
      integers.push_back(integer_behind(editor, editor.op(i).inputs[k]));
    const bool all_alike = !integers.empty() && std::ranges::all_of(integers, [&](int index) {
      return index >= 0 && moves_freely(editor.tensor(index)) &&
             stores_alike(editor.tensor(index), editor.tensor(integers[0]));
    });
    if (!all_alike) return false;
    const int real = editor.op(i).outputs[0];
    ProgramTensor moved = editor.tensor(real);
    moved.name += "_q";
    moved.dtype = editor.tensor(integers[0]).dtype;
    moved.qparams = editor.tensor(integers[0]).qparams;
    moved.role = ProgramTensor::Role::kIntermediate;
    const int integer = editor.add_tensor(std::move(moved));
    std::ranges::copy(integers, editor.op(i).inputs.begin());
    editor.op(i).outputs[0] = integer;
    ProgramOp dequantize;
    dequantize.kind = "dequantize";
    dequantize.name = editor.op(i).name + "_dequantize";
    dequantize.inputs = {integer};
    dequantize.outputs = {real};
    dequantize.module = editor.op(i).module;
    editor.insert(i + 1, std::move(dequantize));
    return true;
  });
}

namespace {

// Merges the op into the op that makes its input, if both have the same kind and that input has no
// other reader.
bool merge_with_producer(ProgramEditor& editor, size_t i) {
  ProgramOp& op = editor.op(i);
  const int maker = op.inputs[0] < 0 ? -1 : editor.producer(op.inputs[0]);
  if (maker < 0) return false;
  const ProgramOp* before = &editor.op(static_cast<size_t>(maker));
  if (before->kind != op.kind ||
      editor.tensor(op.inputs[0]).dtype != editor.tensor(before->inputs[0]).dtype)
    return false;
  if (op.is("permute")) {
    const std::vector<int64_t> first = before->get(attr::kDims);
    std::vector<int64_t> dims;
    for (int64_t dim : op.get(attr::kDims)) dims.push_back(first[static_cast<size_t>(dim)]);
    op.attributes[attr::kDims] = dims;
  }
  op.inputs[0] = before->inputs[0];
  editor.refresh();
  return true;
}

bool changes_nothing(ProgramEditor& editor, const ProgramOp& op) {
  const std::vector<int64_t> dims = op.get(attr::kDims);
  const ProgramTensor& from = editor.tensor(op.inputs[0]);
  const ProgramTensor& to = editor.tensor(op.outputs[0]);
  return from.shape == to.shape && from.sizes == to.sizes &&
         stores_alike(editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])) &&
         std::ranges::is_sorted(dims) && !editor.is_output(op.outputs[0]);
}

}  // namespace

int merge_movement(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    const ProgramOp& op = editor.op(i);
    if (!op.is("reshape") && !op.is("permute") && !op.is("expand")) return false;
    if (changes_nothing(editor, op)) {
      const int from = editor.op(i).outputs[0], to = editor.op(i).inputs[0];
      editor.erase(i);
      editor.replace_uses(from, to);
    } else if (!merge_with_producer(editor, i)) {
      return false;
    }
    return true;
  });
}

int hoist_quantize(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    if (!is_movement(editor.op(i)) || editor.op(i).inputs.size() != 1) return false;
    const int real = editor.op(i).inputs[0];
    const int user = editor.only_user(editor.op(i).outputs[0]);
    if (user < 0 || !editor.op(static_cast<size_t>(user)).is("quantize") ||
        editor.tensor(real).dtype != DType::kFloat32)
      return false;
    // For an input of the program only padding is worth moving: it adds elements, and a convolution
    // may absorb it.
    if ((editor.producer(real) < 0 && !editor.op(i).is("pad")) || editor.only_user(real) < 0)
      return false;
    const ProgramOp quantize = editor.op(static_cast<size_t>(user));
    const int result = quantize.outputs[0];
    if (!moves_freely(editor.tensor(result))) return false;
    // The zero that a pad adds would not be clamped.
    if (editor.op(i).is("pad") &&
        !holds(range_of(quantize, editor.tensor(result)), *editor.tensor(result).qparams))
      return false;
    ProgramTensor early = editor.tensor(result);
    early.name = editor.tensor(real).name + "_q";
    early.shape = editor.tensor(real).shape;
    early.sizes = editor.tensor(real).sizes;
    early.role = ProgramTensor::Role::kIntermediate;
    const int integer = editor.add_tensor(std::move(early));
    ProgramOp moved = quantize;
    moved.inputs = {real};
    moved.outputs = {integer};
    editor.erase(static_cast<size_t>(user));
    editor.op(i).inputs[0] = integer;
    editor.op(i).outputs[0] = result;
    editor.insert(i, std::move(moved));
    return true;
  });
}

int merge_conversions(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    ProgramOp& op = editor.op(i);
    if (!op.is("quantize") && !op.is("requantize")) return false;
    const int integer = op.is("quantize") ? integer_behind(editor, op.inputs[0]) : op.inputs[0];
    if (integer < 0 || (op.is("requantize") &&
                        !stores_alike(editor.tensor(integer), editor.tensor(op.outputs[0]))))
      return false;
    const ProgramTensor& output = editor.tensor(op.outputs[0]);
    const bool keeps_all =
        stores_alike(editor.tensor(integer), output) &&
        (op.attributes.empty() ||
         (output.qparams->is_per_tensor() && lies_within(editor, integer, range_of(op, output))));
    if (keeps_all) {
      const int result = op.outputs[0];
      editor.erase(i);
      editor.replace_uses(result, integer);
    } else if (op.is("quantize")) {
      op.kind = "requantize";
      op.inputs[0] = integer;
      editor.refresh();
    } else {
      return false;
    }
    return true;
  });
}

int fold_clamps(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    if (!editor.op(i).is("clamp")) return false;
    const int real = editor.op(i).inputs[0];
    const int producer = editor.producer(real);
    if (producer < 0 || editor.only_user(real) < 0 || editor.tensor(real).dtype != DType::kFloat32)
      return false;
    ProgramOp& before = editor.op(static_cast<size_t>(producer));
    const OpContract* contract = find_contract(before.kind);
    if (contract == nullptr || !contract->has_post_ops() ||
        editor.tensor(editor.op(i).outputs[0]).dtype != DType::kFloat32)
      return false;
    // clamp(clamp(x, a, b), c, d) = clamp(x, clamp(a, c, d), clamp(b, c, d))
    const double low = editor.op(i).get(attr::kMin, -INFINITY),
                 high = editor.op(i).get(attr::kMax, INFINITY);
    const double post_min = std::min(std::max(before.get(attr::kPostMin, -INFINITY), low), high);
    const double post_max = std::min(std::max(before.get(attr::kPostMax, INFINITY), low), high);
    if (std::isfinite(post_min)) before.attributes[attr::kPostMin] = post_min;
    if (std::isfinite(post_max)) before.attributes[attr::kPostMax] = post_max;
    add_sources(before, editor.op(i));
    before.outputs[0] = editor.op(i).outputs[0];
    editor.erase(i);
    return true;
  });
}

int take_integer_inputs(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    ProgramOp& op = editor.op(i);
    const OpContract* contract = find_contract(op.kind);
    if (contract == nullptr || contract->nature != Nature::kCompute) return false;
    const size_t count = contract->integer_input_count(op.inputs.size());
    std::vector<int> integers;
    for (size_t k = 0; k < count; ++k) integers.push_back(integer_behind(editor, op.inputs[k]));
    if (integers.empty() || std::ranges::find(integers, -1) != integers.end()) return false;
    for (size_t k = 0; k < count; ++k) {
      add_sources(op, *editor.find_producer(op.inputs[k], "dequantize"));
      op.inputs[k] = integers[k];
    }
    editor.refresh();
    return true;
  });
}

namespace {

bool reads_integers(ProgramEditor& editor, const ProgramOp& op, const OpContract& contract) {
  const size_t count = contract.integer_input_count(op.inputs.size());
  for (size_t k = 0; k < count; ++k)
    if (!editor.tensor(op.inputs[k]).qparams) return false;
  return count > 0;
}

// Expresses a quantization range that is narrower than the dtype by post_min and post_max; false if
// the op does not have these.
bool take_range(ProgramOp& op, const OpContract& contract, const ProgramOp& quantize,
                const ProgramTensor& result) {
  if (quantize.attributes.empty()) return true;
  if (!contract.has_post_ops() || !result.qparams->is_per_tensor()) return false;
  const RealRange range = real_range(range_of(quantize, result), *result.qparams);
  op.attributes[attr::kPostMin] =
      std::min(std::max(op.get(attr::kPostMin, range.low), range.low), range.high);
  op.attributes[attr::kPostMax] =
      std::min(std::max(op.get(attr::kPostMax, range.high), range.low), range.high);
  return true;
}

// quantize(f(x)) -> requantize(f(x)) if f has no clamp: f writes the whole range of the integers,
// and the requantize, with the same scale, narrows it.
void narrow_behind(ProgramEditor& editor, size_t i, size_t user) {
  ProgramOp& quantize = editor.op(user);
  ProgramTensor whole = editor.tensor(quantize.outputs[0]);
  whole.name += "_whole";
  whole.role = ProgramTensor::Role::kIntermediate;
  const int integer = editor.add_tensor(std::move(whole));
  editor.op(i).outputs[0] = integer;
  quantize.kind = "requantize";
  quantize.inputs[0] = integer;
  editor.refresh();
}

}  // namespace

int write_integer_outputs(Program& program) {
  ProgramEditor editor(program);
  int changes = 0;
  for (size_t i = 0; i < editor.op_count(); ++i) {
    ProgramOp& op = editor.op(i);
    const OpContract* contract = editor.is_erased(i) ? nullptr : find_contract(op.kind);
    if (contract == nullptr || contract->nature != Nature::kCompute ||
        !reads_integers(editor, op, *contract))
      continue;
    const int user = editor.only_user(op.outputs[0]);
    if (user < 0 || !editor.op(static_cast<size_t>(user)).is("quantize")) continue;
    const ProgramOp quantize = editor.op(static_cast<size_t>(user));
    ++changes;
    if (!take_range(op, *contract, quantize, editor.tensor(quantize.outputs[0]))) {
      narrow_behind(editor, i, static_cast<size_t>(user));
      continue;
    }
    op.outputs[0] = quantize.outputs[0];
    add_sources(op, quantize);
    editor.erase(static_cast<size_t>(user));
  }
  return changes;
}

namespace {

using Step = int (*)(Program&);
constexpr Step kSteps[] = {
    fold_constants,  merge_duplicates,    merge_movement,       make_linear,
    make_gelu,       make_rms_norm,       make_rotary,          sink_dynamic_quantize,
    sink_dequantize, hoist_quantize,      merge_conversions,    fold_padding,
    fold_clamps,     take_integer_inputs, write_integer_outputs};

}  // namespace

void fuse(Program& program) {
  for (Program& body : program.bodies) fuse(body);
  for (int round = 0, changes = 1; changes != 0; ++round) {
    OCTET_ASSERT(round < 100, "fusion does not come to an end");
    changes = 0;
    for (Step step : kSteps) changes += step(program);
    ProgramEditor(program).compact();
  }
  fold_dequantized_constants(program);
  ProgramEditor(program).compact();
}

}  // namespace octet
