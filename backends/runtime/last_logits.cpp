#include "backends/runtime/last_logits.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>

#include "backends/registry.h"
#include "lowering/program/symbols.h"

namespace octet {
namespace {

// The ops that make the logits of a position from its hidden state.
struct Head {
  int first = -1;  // op that reads the hidden states: the linear, or what quantizes its rows
  std::vector<int> after;  // results of `first` and the following ops, the logits included
};

// Their result has the shape of the first input, if the others are constants without positions.
bool is_elementwise(const Program& program, const ProgramOp& op) {
  static const std::set<std::string_view> kinds = {
      "add",  "sub",   "mul",  "div",      "minimum",    "maximum",   "unary",
      "cast", "clamp", "copy", "quantize", "dequantize", "requantize"};
  const auto lacks_positions = [&](int index) {
    const ProgramTensor& tensor = program.tensor(index);
    return tensor.is_constant() && (tensor.shape.size() <= 1 || tensor.numel() == 1);
  };
  return kinds.contains(op.kind) && op.outputs.size() == 1 && op.has_input(0) &&
         std::all_of(op.inputs.begin() + 1, op.inputs.end(), lacks_positions);
}

std::optional<int> maker_of(const Program& program, int tensor) {
  for (size_t i = 0; i < program.ops.size(); ++i)
    if (std::ranges::count(program.ops[i].outputs, tensor) > 0) return static_cast<int>(i);
  return std::nullopt;
}

ptrdiff_t count_uses(const Program& program, int tensor) {
  ptrdiff_t uses = std::ranges::count(program.results(), tensor);
  for (const ProgramOp& op : program.ops) uses += std::ranges::count(op.inputs, tensor);
  return uses;
}

std::optional<Head> find_head(const Program& program) {
  if (program.outputs.empty()) return std::nullopt;
  Head head;
  for (int tensor = program.outputs[0];;) {
    const std::optional<int> maker = maker_of(program, tensor);
    if (!maker || count_uses(program, tensor) != 1) return std::nullopt;
    head.after.push_back(tensor);
    head.first = *maker;
    const ProgramOp& op = program.op(*maker);
    if (op.is("linear") && program.input(op, 1).is_constant()) {
      const int x = op.inputs[0];
      const std::optional<int> rows = maker_of(program, x);
      if (!rows || !program.op(*rows).is("fake_quantize_dynamic")) return head;
      if (count_uses(program, x) != 1) return std::nullopt;
      head.after.push_back(x);
      head.first = *rows;
      return head;
    }
    if (!is_elementwise(program, op)) return std::nullopt;
    tensor = op.inputs[0];
  }
}

SizeExpr size_at(const ProgramTensor& tensor, size_t dim) {
  return tensor.sizes.empty() ? SizeExpr(tensor.shape[dim]) : tensor.sizes[dim];
}

void set_size(ProgramTensor& tensor, size_t dim, const SizeExpr& size, int64_t hint) {
  tensor.shape[dim] = hint;
  if (tensor.sizes.empty()) return;
  tensor.sizes[dim] = size;
  if (!is_symbolic(tensor.sizes)) tensor.sizes.clear();
}

// Quantizes each of the kept positions alone, as before. Returns false if their scales depend on
// other positions.
bool keep_blocks(ProgramOp& op, size_t dim, const SizeExpr& positions, const SizeExpr& kept,
                 int64_t hint) {
  std::vector<int64_t> blocks = op.get(attr::kBlocks, {});
  std::vector<SizeExpr>& sizes = op.sizes["blocks"];
  if (sizes.empty()) sizes.assign(blocks.begin(), blocks.end());
  if (sizes.size() <= dim || sizes[dim] != positions) return false;
  sizes[dim] = kept;
  blocks[dim] = hint;
  op.attributes["blocks"] = blocks;
  if (!is_symbolic(sizes)) op.sizes.erase("blocks");
  return true;
}

void insert_before(Program& program, int place, ProgramOp op) {
  program.ops.insert(program.ops.begin() + place, std::move(op));
  for (Segment& segment : program.segments) {
    for (int& index : segment.ops) index += index >= place;
    const auto moved = std::ranges::find(segment.ops, place + 1);
    if (moved != segment.ops.end()) segment.ops.insert(moved, place);
  }
}

}  // namespace

bool keep_last_logits(Program& program, int64_t count) {
  const std::optional<Head> head = find_head(program);
  if (!head) return false;
  const int x_index = program.op(head->first).inputs[0];
  const ProgramTensor& x = program.tensor(x_index);
  const size_t rank = x.shape.size();
  if (rank < 2) return false;
  const size_t dim = rank - 2;
  const SizeExpr positions = size_at(x, dim);
  for (int index : head->after)
    if (program.tensor(index).shape.size() != rank ||
        size_at(program.tensor(index), dim) != positions)
      return false;
  const ShapeRange range = shape_range(program, x);
  if (range.max[dim] <= count) return true;
  const SizeExpr kept = range.min[dim] >= count ? SizeExpr(count) : minimum(positions, count);
  const int64_t hint = x.shape[dim], kept_hint = std::min(hint, count);

  Program changed = program;
  ProgramTensor last = x;
  last.name = x.name + "_last_positions";
  last.role = ProgramTensor::Role::kIntermediate;
  set_size(last, dim, kept, kept_hint);
  for (int index : head->after) {
    set_size(changed.tensor(index), dim, kept, kept_hint);
    ProgramOp& op = changed.op(*maker_of(program, index));
    if (op.is("linear")) op.macs = hint == 0 ? 0 : op.macs / hint * kept_hint;
    if (op.is("fake_quantize_dynamic") && !keep_blocks(op, dim, positions, kept, kept_hint))
      return false;
  }
  ProgramOp& first = changed.op(head->first);
  ProgramOp slice;
  slice.kind = "slice";
  slice.name = last.name;
  slice.inputs = {x_index};
  slice.outputs = {static_cast<int>(changed.tensors.size())};
  slice.attributes = {{"dim", static_cast<int64_t>(dim)}, {"start", hint - kept_hint}};
  if (!positions.is_number()) slice.sizes["start"] = {positions - kept};
  slice.sources = {first.name};
  slice.module = first.module;
  first.inputs[0] = slice.outputs[0];
  changed.tensors.push_back(std::move(last));
  const auto segment = std::ranges::find_if(program.segments, [&](const Segment& some) {
    return std::ranges::count(some.ops, head->first) > 0;
  });
  if (segment == program.segments.end() || !make_support(segment->backend)->accepts(changed, slice))
    return false;
  insert_before(changed, head->first, std::move(slice));
  program = std::move(changed);
  return true;
}

}  // namespace octet
