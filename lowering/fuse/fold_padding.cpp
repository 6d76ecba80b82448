// Zero padding before a convolution becomes its own padding, also where the two sides differ (a
// graph's convolution cannot say that).
#include <algorithm>

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

}  // namespace

int fold_padding(Program& program) {
  ProgramEditor editor(program);
  int changes = 0;
  for (size_t i = 0; i < editor.op_count(); ++i) {
    ProgramOp& conv = editor.op(i);
    if (editor.is_erased(i) || conv.kind != "conv") continue;
    const int padded = conv.inputs[0];
    const ProgramOp* pad = editor.find_producer(padded, "pad");
    if (pad == nullptr || editor.only_user(padded) != static_cast<int>(i)) continue;
    const ProgramTensor& before = editor.tensor(pad->inputs[0]);
    const ProgramTensor& after = editor.tensor(padded);
    if (before.dtype != after.dtype || before.qparams != after.qparams || before.shape.size() < 3)
      continue;
    const std::optional<Padding> extra = spatial_padding(*pad, before.shape.size());
    if (!extra) continue;
    std::vector<int64_t> low = conv.integers("padding", std::vector<int64_t>(extra->low.size(), 0));
    std::vector<int64_t> high = conv.integers("padding_end", low);
    for (size_t d = 0; d < low.size(); ++d) {
      low[d] += extra->low[d];
      high[d] += extra->high[d];
    }
    conv.attributes["padding"] = low;
    conv.attributes["padding_end"] = high;
    conv.inputs[0] = pad->inputs[0];
    conv.sources.insert(conv.sources.begin(), pad->sources.begin(), pad->sources.end());
    editor.refresh();
    ++changes;
  }
  return changes;
}

}  // namespace octet
