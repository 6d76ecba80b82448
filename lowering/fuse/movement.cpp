// Moves padding into convolutions, and data movement before dynamic quantization.
//
// Zero padding before a convolution becomes the convolution's padding. That includes padding that
// differs between the two sides, which a graph's convolution cannot express, and a dynamic
// quantization in between. Permutations and reshapes move before a dynamic quantization, so that
// the op that reads the integers follows it directly.
#include <algorithm>

#include "core/base/shape.h"
#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {

// ---- padding

namespace {

// Low and high padding per spatial dimension.
struct Padding {
  std::vector<int64_t> low;
  std::vector<int64_t> high;
};

// The padding, if a convolution can do it: zeros, only around spatial dimensions, and no cropping.
std::optional<Padding> spatial_padding(const ProgramOp& pad, size_t rank) {
  const std::vector<int64_t> pads = pad.get(attr::kPads);
  if (pad.get(attr::kValue) != 0 || pads.size() != 2 * rank ||
      std::ranges::any_of(pads, [](int64_t p) { return p < 0; }))
    return std::nullopt;
  if (std::any_of(pads.begin(), pads.begin() + 4, [](int64_t p) { return p != 0; }))
    return std::nullopt;
  Padding result;
  for (size_t i = 4; i < pads.size(); i += 2) {
    result.low.push_back(pads[i]);
    result.high.push_back(pads[i + 1]);
  }
  return result;
}

// The op that dynamically quantizes the convolution's input with one scale, if no other op reads
// that input; else -1. Padding does not change its result, because its range includes zero, which
// it represents exactly.
int quantization_of(ProgramEditor& editor, size_t conv) {
  const int quantized = editor.op(conv).inputs[0];
  const ProgramOp* op = editor.find_producer(quantized, "fake_quantize_dynamic");
  const bool has_one_scale = op != nullptr && product(op->get(attr::kBlocks)) == 1;
  return has_one_scale && editor.only_user(quantized) == static_cast<int>(conv)
             ? editor.producer(quantized)
             : -1;
}

// Makes the quantization read the tensor without padding.
void shrink_quantization(ProgramEditor& editor, size_t quantization, size_t conv, int source) {
  ProgramOp& op = editor.op(quantization);
  ProgramTensor smaller = editor.tensor(op.outputs[0]);
  smaller.shape = editor.tensor(source).shape;
  smaller.name += "_unpadded";
  op.inputs[0] = source;
  op.outputs[0] = editor.add_tensor(std::move(smaller));
  editor.op(conv).inputs[0] = op.outputs[0];
}

}  // namespace

int fold_padding(Program& program) {
  return rewrite_ops(program, [](ProgramEditor& editor, size_t i) {
    if (!editor.op(i).is("conv")) return false;
    const int quantization = quantization_of(editor, i);
    const size_t reader = quantization < 0 ? i : static_cast<size_t>(quantization);
    const int padded = editor.op(reader).inputs[0];
    const ProgramOp* pad = editor.find_producer(padded, "pad");
    if (pad == nullptr || editor.only_user(padded) != static_cast<int>(reader)) return false;
    const int source = pad->inputs[0];
    const ProgramTensor& before = editor.tensor(source);
    const ProgramTensor& after = editor.tensor(padded);
    if (before.dtype != after.dtype || before.qparams != after.qparams || before.shape.size() < 3)
      return false;
    const std::optional<Padding> extra = spatial_padding(*pad, before.shape.size());
    if (!extra) return false;
    ProgramOp& conv = editor.op(i);
    std::vector<int64_t> low = conv.get(attr::kPadding, std::vector<int64_t>(extra->low.size(), 0));
    std::vector<int64_t> high = conv.get(attr::kPaddingEnd, low);
    for (size_t d = 0; d < low.size(); ++d) {
      low[d] += extra->low[d];
      high[d] += extra->high[d];
    }
    conv.attributes[attr::kPadding] = low;
    conv.attributes[attr::kPaddingEnd] = high;
    conv.sources.insert(conv.sources.begin(), pad->sources.begin(), pad->sources.end());
    if (quantization < 0)
      conv.inputs[0] = source;
    else
      shrink_quantization(editor, reader, i, source);
    editor.refresh();
    return true;
  });
}

// ---- dynamic quantization

namespace {

// The blocks after the permutation or reshape moved before the quantization; nullopt if they are
// not known.
std::optional<std::vector<int64_t>> moved_blocks(ProgramEditor& editor, const ProgramOp& move,
                                                 const ProgramOp& quantize) {
  const auto given = quantize.attributes.find(attr::kBlocks.name);
  const size_t rank = editor.tensor(move.outputs[0]).shape.size();
  if (given == quantize.attributes.end()) return std::vector<int64_t>(rank, 1);
  const std::vector<int64_t>* blocks = std::get_if<std::vector<int64_t>>(&given->second);
  if (blocks == nullptr || quantize.sizes.contains("blocks")) return std::nullopt;
  if (product(*blocks) == 1) return std::vector<int64_t>(rank, 1);
  if (!move.is("permute")) return std::nullopt;
  std::vector<int64_t> moved;
  std::optional<size_t> dim;
  for (const int64_t given_dim : move.get(attr::kDims)) {
    dim = find_dim(given_dim, blocks->size());
    moved.push_back((*blocks)[*dim]);
  }
  const bool keeps_rows = dim && *dim + 1 == rank;
  return keeps_rows ? std::optional(moved) : std::nullopt;
}

bool sink_one(ProgramEditor& editor, size_t i) {
  const ProgramOp& move = editor.op(i);
  if (!move.is("permute") && !move.is("reshape")) return false;
  const int quantized = move.inputs[0];
  const ProgramOp* quantize = editor.find_producer(quantized, "fake_quantize_dynamic");
  if (quantize == nullptr || editor.only_user(quantized) < 0 ||
      editor.tensor(quantized).dtype != editor.tensor(quantize->inputs[0]).dtype)
    return false;
  const std::optional<std::vector<int64_t>> blocks = moved_blocks(editor, move, *quantize);
  if (!blocks) return false;
  ProgramOp sunk = *quantize;
  sunk.attributes[attr::kBlocks] = *blocks;
  const int result = move.outputs[0], source = quantize->inputs[0];
  ProgramTensor moved = editor.tensor(result);
  moved.name += "_moved";
  moved.role = ProgramTensor::Role::kIntermediate;
  const int between = editor.add_tensor(std::move(moved));
  const auto before = static_cast<size_t>(editor.producer(quantized));
  editor.op(i).inputs[0] = source;
  editor.op(i).outputs[0] = between;
  sunk.inputs = {between};
  sunk.outputs = {result};
  editor.insert(i + 1, std::move(sunk));
  editor.erase(before);
  return true;
}

}  // namespace

int sink_dynamic_quantize(Program& program) { return rewrite_ops(program, sink_one); }

}  // namespace octet
