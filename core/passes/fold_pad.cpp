#include "core/passes/fold_pad.h"

#include <algorithm>
#include <array>

#include "core/graph/origin.h"

namespace octet {
namespace {

struct ConvRow {
  std::string_view target;
  size_t spatial;  // dimensions
};

constexpr std::array<ConvRow, 3> kConvs = {
    {{"aten.conv1d.default", 1}, {"aten.conv2d.default", 2}, {"aten.conv3d.default", 3}}};

bool is_zero_pad(const Node& node) {
  if (node.is("aten.constant_pad_nd")) return node.float_or("value", 0.0) == 0.0;
  if (!node.is("aten.pad")) return false;
  const Argument* mode = node.find_argument("mode");
  const bool is_constant =
      mode == nullptr || mode->is_none() ||
      (mode->find<std::string>() != nullptr && *mode->find<std::string>() == "constant");
  return is_constant && node.float_or("value", 0.0) == 0.0;
}

// Per spatial dimension, first dimension first; empty when the padding is not of the kind that a
// convolution takes.
std::vector<int64_t> symmetric_padding(const Node& pad, size_t spatial) {
  const Argument* argument = pad.find_argument("pad");
  const std::vector<int64_t>* pads =
      argument == nullptr ? nullptr : argument->find<std::vector<int64_t>>();
  if (pads == nullptr || pads->size() > 2 * spatial || pads->size() % 2 != 0) return {};
  std::vector<int64_t> result(spatial, 0);
  for (size_t i = 0; i < pads->size() / 2; ++i) {
    const int64_t low = (*pads)[2 * i];
    if (low != (*pads)[2 * i + 1] || low < 0) return {};
    result[spatial - 1 - i] = low;  // pad lists the last dimension first
  }
  return result;
}

bool fold_into(Graph& graph, Node& conv, size_t spatial) {
  Value* input = conv.find_input("input");
  Node* pad = input == nullptr ? nullptr : input->producer();
  if (pad == nullptr || !is_zero_pad(*pad) || !input->has_one_user()) return false;
  Value* source = pad->find_input("self");
  // Without a batch dimension the same list could reach the channels; the rank tells.
  if (source == nullptr || !source->meta || source->meta->sizes.size() < spatial + 1) return false;
  const std::vector<int64_t> extra = symmetric_padding(*pad, spatial);
  if (extra.empty()) return false;
  std::vector<int64_t> padding = conv.ints_or("padding", {0});
  padding.resize(spatial, padding.back());
  for (size_t i = 0; i < spatial; ++i) padding[i] += extra[i];
  // By keyword when the call left it out: a positional argument behind a gap would be read as the
  // one in the gap.
  conv.set_argument("padding", padding, ArgumentKind::kKeyword);
  conv.set_argument("input", source);
  absorb_before(conv, *pad);
  graph.erase(*pad);
  return true;
}

}  // namespace

int fold_pad(Graph& graph) {
  int folds = 0;
  for (Node* node : graph.nodes()) {
    const auto row = std::find_if(kConvs.begin(), kConvs.end(), [&](const ConvRow& conv) {
      return conv.target == node->target();
    });
    if (row != kConvs.end() && fold_into(graph, *node, row->spatial)) ++folds;
  }
  return folds;
}

}  // namespace octet
