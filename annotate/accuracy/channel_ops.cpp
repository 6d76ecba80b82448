#include "annotate/accuracy/channel_ops.h"

#include <algorithm>
#include <array>

namespace octet {
namespace {

constexpr std::array<OpForm, 7> kOpForms = {
    {{"aten.conv1d", "input", "weight", "bias", 0, 1, ChannelPosition::kSecond},
     {"aten.conv2d", "input", "weight", "bias", 0, 1, ChannelPosition::kSecond},
     {"aten.conv3d", "input", "weight", "bias", 0, 1, ChannelPosition::kSecond},
     {"aten.linear", "input", "weight", "bias", 0, 1, ChannelPosition::kLast},
     {"aten.addmm", "mat1", "mat2", "self", 1, 0, ChannelPosition::kLast},
     {"aten.mm", "self", "mat2", "", 1, 0, ChannelPosition::kLast},
     {"aten.layer_norm", "input", "weight", "bias", 0, -1, ChannelPosition::kLast}}};

}  // namespace

const OpForm* find_op_form(const Node& node) {
  const auto form = std::find_if(kOpForms.begin(), kOpForms.end(),
                                 [&](const OpForm& row) { return node.is(row.op); });
  return form == kOpForms.end() ? nullptr : form;
}

}  // namespace octet
