// Allocates states, and finds those that are written in place.
#include "backends/runtime/state_memory.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

// The op that makes the tensor, if it is in a segment of the reference backend; else null.
const ProgramOp* find_reference_op(const Program& program, int tensor) {
  for (const Segment& segment : program.segments) {
    if (segment.backend != "reference") continue;
    for (int index : segment.ops)
      if (program.op(index).outputs[0] == tensor) return &program.op(index);
  }
  return nullptr;
}

}  // namespace

bool is_written_in_place(const Program& program, const ProgramState& state) {
  const ProgramOp* writer = find_reference_op(program, state.next);
  if (writer == nullptr || !writer->is("index_put") || writer->get(attr::kAccumulate) ||
      program.input(*writer, 1).dtype != program.tensor(state.value).dtype)
    return false;
  size_t reads = 0;
  for (const ProgramOp& op : program.ops)
    reads += static_cast<size_t>(std::count(op.inputs.begin(), op.inputs.end(), state.value));
  const std::vector<int> results = program.results();
  return writer->inputs[0] == state.value && reads == 1 &&
         std::count(results.begin(), results.end(), state.value) == 0 &&
         std::count(results.begin(), results.end(), state.next) == 1;
}

void StateMemory::add_states(const Program& program) {
  for (const ProgramState& state : program.states) {
    const ProgramTensor& tensor = program.tensor(state.value);
    values_.push_back(Tensor::zeros(tensor.dtype, tensor.shape));
    next_.push_back(is_written_in_place(program, state)
                        ? values_.back()
                        : Tensor::zeros(tensor.dtype, tensor.shape));
  }
  reset(program);
}

void StateMemory::copy(const StateMemory& other) {
  const auto is_alike = [](const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape();
  };
  if (!std::equal(values_.begin(), values_.end(), other.values_.begin(), other.values_.end(),
                  is_alike))
    throw Error("session", "copy_states",
                "the sessions have different states; want two of one program");
  for (size_t i = 0; i < values_.size() && &other != this; ++i)
    if (values_[i].numel() != 0)
      std::memcpy(values_[i].raw(), other.values_[i].raw(), values_[i].nbytes());
}

void StateMemory::reset(const Program& program) {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].numel() == 0) continue;
    const int start = program.states[i].start;
    if (start < 0)
      std::memset(values_[i].raw(), 0, values_[i].nbytes());
    else
      std::memcpy(values_[i].raw(), constant_data(program.tensor(start)).raw(),
                  values_[i].nbytes());
  }
}

}  // namespace octet
