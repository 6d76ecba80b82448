// The ops whose weights can take factors of channels (channel_space.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/graph/graph.h"

namespace octet {

enum class ChannelPosition { kSecond, kLast };

struct OpForm {
  std::string_view op;
  std::string_view input, weight, bias;
  int64_t output_axis;  // of the weight
  int64_t input_axis;   // of the weight; -1: it takes no channels
  ChannelPosition position;
};

const OpForm* find_op_form(const Node& node);  // null for other ops

}  // namespace octet
