// One pass over the ops of the segment.
#include "backends/onednn/builder/tensor_state.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace octet::onednn {
namespace {

const std::string_view kChannelsLastOps[] = {"conv", "conv_transpose", "max_pool", "avg_pool",
                                             "adaptive_avg_pool"};

bool works_channels_last(const ProgramOp& op) {
  return std::find(std::begin(kChannelsLastOps), std::end(kChannelsLastOps), op.kind) !=
         std::end(kChannelsLastOps);
}

}  // namespace

std::map<int, TensorState> tensor_states(const Program& program, const Segment& segment) {
  std::map<int, TensorState> states;
  for (int op_index : segment.ops) {
    const ProgramOp& op = program.op(op_index);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (op.inputs[i] < 0) continue;
      TensorState& input = states[op.inputs[i]];
      const bool is_second_factor = op.kind == "matmul" && i == 1;
      input.is_second_factor = is_second_factor && (!input.is_read || input.is_second_factor);
      input.only_reader = input.is_read ? nullptr : &op;
      input.is_read = true;
      if (i == 0 && works_channels_last(op)) input.is_read_channels_last = true;
    }
  }
  for (int index : segment.outputs) states[index].only_reader = nullptr;
  return states;
}

}  // namespace octet::onednn
