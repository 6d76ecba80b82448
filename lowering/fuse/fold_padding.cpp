// Zero padding before a convolution becomes its own padding, also where the two sides differ (a
// graph's convolution cannot say that), and where it is quantized at run time in between.
#include <algorithm>

#include "core/base/shape.h"
#include "lowering/fuse/fuse.h"
#include "lowering/fuse/program_editor.h"

namespace octet {
namespace {

// Low and high padding per spatial dimension.
struct Padding {
  std::vector<int64_t> low;
  std::vector<int64_t> high;
};

// What the pad op does, when a convolution can do it: zeros, around spatial dimensions only,
// nothing cut off.
std::optional<Padding> spatial_padding(const ProgramOp& pad, size_t rank) {
  const std::vector<int64_t> pads = pad.integers("pads");
  if (pad.real("value", 0) != 0 || pads.size() != 2 * rank ||
      std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p < 0; }))
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

// The op that quantizes the convolution's input at run time with one scale, where no other op reads
// that: its range holds zero anyway, and zero stays zero. Or -1.
int quantization_of(ProgramEditor& editor, size_t conv) {
  const int quantized = editor.op(conv).inputs[0];
  const ProgramOp* op = editor.find_producer(quantized, "fake_quantize_dynamic");
  const bool has_one_scale = op != nullptr && product(op->integers("blocks", {})) == 1;
  return has_one_scale && editor.only_user(quantized) == static_cast<int>(conv)
             ? editor.producer(quantized)
             : -1;
}

// Without the padding.
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
  ProgramEditor editor(program);
  int changes = 0;
  for (size_t i = 0; i < editor.op_count(); ++i) {
    if (editor.is_erased(i) || editor.op(i).kind != "conv") continue;
    const int quantization = quantization_of(editor, i);
    const size_t reader = quantization < 0 ? i : static_cast<size_t>(quantization);
    const int padded = editor.op(reader).inputs[0];
    const ProgramOp* pad = editor.find_producer(padded, "pad");
    if (pad == nullptr || editor.only_user(padded) != static_cast<int>(reader)) continue;
    const int source = pad->inputs[0];
    const ProgramTensor& before = editor.tensor(source);
    const ProgramTensor& after = editor.tensor(padded);
    if (before.dtype != after.dtype || before.qparams != after.qparams || before.shape.size() < 3)
      continue;
    const std::optional<Padding> extra = spatial_padding(*pad, before.shape.size());
    if (!extra) continue;
    ProgramOp& conv = editor.op(i);
    std::vector<int64_t> low = conv.integers("padding", std::vector<int64_t>(extra->low.size(), 0));
    std::vector<int64_t> high = conv.integers("padding_end", low);
    for (size_t d = 0; d < low.size(); ++d) {
      low[d] += extra->low[d];
      high[d] += extra->high[d];
    }
    conv.attributes["padding"] = low;
    conv.attributes["padding_end"] = high;
    conv.sources.insert(conv.sources.begin(), pad->sources.begin(), pad->sources.end());
    if (quantization < 0)
      conv.inputs[0] = source;
    else
      shrink_quantization(editor, reader, i, source);
    editor.refresh();
    ++changes;
  }
  return changes;
}

}  // namespace octet
