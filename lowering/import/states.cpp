// Buffers that the graph writes. The placeholder of one is the value with which a run starts; what
// the last write in place left of it, or what an output of the graph gives it, is that of the next
// run.
#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/ops/memory.h"
#include "lowering/import/importer.h"

namespace octet {
namespace {

bool is_zero(const Tensor& tensor) {
  const std::byte* bytes = tensor.raw();
  return std::all_of(bytes, bytes + tensor.nbytes(),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

// The value that an output of the graph gives the buffer; null without one.
Value* find_mutation(const Graph& graph, const std::string& fqn) {
  for (const GraphOutput& output : graph.outputs())
    if ((output.kind == OutputKind::kBufferMutation ||
         output.kind == OutputKind::kParameterMutation) &&
        output.target == fqn)
      return output.value.value_or_null();
  return nullptr;
}

}  // namespace

void Importer::import_states() {
  const std::unordered_set<const Value*> written = written_constants(graph_);
  for (const GraphInput& input : graph_.inputs()) {
    if (!written.contains(input.value)) continue;
    const Tensor* start = graph_.find_constant(input.value);
    if (start == nullptr || !start->defined())
      throw Error("lower", input.fqn, "is written by the program, but has no value to start with");
    tensors_[input.value] = add_tensor(
        {input.value->name(), start->dtype(), start->shape(), {}, ProgramTensor::Role::kState, {}});
    program_.states.push_back({.name = input.fqn, .value = tensors_[input.value]});
    state_inputs_.push_back(input.value);
  }
}

bool Importer::is_state(const Value* value) const {
  return std::find(state_inputs_.begin(), state_inputs_.end(), value) != state_inputs_.end();
}

void Importer::import_next_states() {
  std::vector<ProgramState> states = std::move(program_.states);
  program_.states.clear();
  for (size_t i = 0; i < states.size(); ++i) {
    ProgramState& state = states[i];
    Value* given = find_mutation(graph_, state.name);
    state.next = tensor_of(given == nullptr ? state_inputs_[i] : given);
    const Tensor start = graph_.find_constant(state_inputs_[i])->contiguous();
    if (state.next == state.value) {  // what is written is something else
      program_.tensor(state.value).role = ProgramTensor::Role::kConstant;
      program_.tensor(state.value).data = start;
      continue;
    }
    ProgramTensor &before = program_.tensor(state.value), &after = program_.tensor(state.next);
    if (after.dtype != before.dtype || after.shape != before.shape || !after.sizes.empty())
      throw Error("lower", state.name,
                  fmt::format("becomes %{}, which has another dtype or an open size, want that of "
                              "the buffer; export with fixed sizes",
                              after.name));
    // Integers that stand for reals do so before and after.
    if (!before.qparams) before.qparams = after.qparams;
    if (!after.qparams) after.qparams = before.qparams;
    if (!is_zero(start)) state.start = add_constant(before.name + "_start", start);
    program_.states.push_back(state);
  }
}

}  // namespace octet
