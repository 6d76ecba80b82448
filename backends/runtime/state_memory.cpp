// Allocates states, and finds those that are written in place.
#include "backends/runtime/state_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/shape.h"
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

bool is_read(const Program& program, int tensor) {
  const std::vector<int> results = program.results();
  return std::ranges::count(results, tensor) > 0 ||
         std::ranges::any_of(program.ops, [&](const ProgramOp& op) {
           return std::ranges::count(op.inputs, tensor) > 0;
         });
}

const ProgramOp* find_maker(const Program& program, int tensor) {
  const auto found = std::ranges::find_if(
      program.ops, [&](const ProgramOp& op) { return std::ranges::count(op.outputs, tensor) > 0; });
  return found == program.ops.end() ? nullptr : &*found;
}

// Whether the first integer is 0 and none is less, as in an arange.
bool begins_at_zero(const ProgramTensor& constant) {
  if (constant.dtype != DType::kInt32 && constant.dtype != DType::kInt64) return false;
  const auto begins = [&](const auto* numbers) {
    return constant.numel() > 0 && numbers[0] == 0 &&
           std::all_of(numbers, numbers + constant.numel(), [](auto n) { return n >= 0; });
  };
  const Tensor data = constant_data(constant);
  return constant.dtype == DType::kInt32 ? begins(data.data<int32_t>())
                                         : begins(data.data<int64_t>());
}

bool keeps_positions(const ProgramOp& op) {
  // a slice from 0 on keeps the 0 that a constant begins at
  return (op.is("add") && op.get(attr::kAlpha, 1) == 1) || op.is("cast") || op.is("expand") ||
         op.is("reshape") || (op.is("slice") && op.get(attr::kStart) == 0);
}

// The program's input whose elements the tensor has, or these plus constants that begin at 0; -1:
// there is none.
int find_positions(const Program& program, int tensor) {
  int input = -1;
  std::vector<char> seen(program.tensors.size());
  for (std::vector<int> open = {tensor}; !open.empty();) {
    const int index = open.back();
    open.pop_back();
    // what is read twice is added to itself
    if (std::exchange(seen[static_cast<size_t>(index)], 1) != 0) return -1;
    if (program.tensor(index).is_constant()) {
      if (!begins_at_zero(program.tensor(index))) return -1;
    } else if (std::ranges::count(program.inputs, index) > 0) {
      if (input >= 0) return -1;
      input = index;
    } else {
      const ProgramOp* op = find_maker(program, index);
      if (op == nullptr || !keeps_positions(*op)) return -1;
      open.insert(open.end(), op->inputs.begin(), op->inputs.end());
    }
  }
  return input;
}

struct CacheRows {
  size_t dim;     // of the cache
  int positions;  // the program's input
};

// The rows of a cache, which a run writes only at positions that an input gives.
std::optional<CacheRows> find_cache_rows(const Program& program, const ProgramState& state) {
  const ProgramOp* op = find_maker(program, state.next);
  if (op == nullptr || !op->is("index_put") || op->inputs[0] != state.value ||
      op->get(attr::kAccumulate))
    return std::nullopt;
  const auto indices = std::span(op->inputs).subspan(2);
  const auto at = std::ranges::find_if(indices, [](int index) { return index >= 0; });
  const bool has_one = std::ranges::count(indices, -1) + 1 == std::ssize(indices);
  const int positions = has_one ? find_positions(program, *at) : -1;
  if (positions < 0) return std::nullopt;
  return CacheRows{static_cast<size_t>(at - indices.begin()), positions};
}

// Gives the elements of each of so many equal parts their first values, except `kept` bytes.
void restart(const Tensor& value, const Program& program, const ProgramState& state, size_t parts,
             size_t kept) {
  if (value.numel() == 0) return;
  const Tensor start = state.start < 0 ? Tensor() : constant_data(program.tensor(state.start));
  const size_t bytes = value.nbytes() / parts;
  for (size_t at = kept; at < value.nbytes(); at += bytes) {
    if (start.defined())
      std::memcpy(value.raw() + at, start.raw() + at, bytes - kept);
    else
      std::memset(value.raw() + at, 0, bytes - kept);
  }
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
  for (size_t i = 0; i < values_.size(); ++i) restart(values_[i], program, program.states[i], 1, 0);
}

void StateMemory::truncate(const Program& program, int64_t count) {
  std::vector<std::optional<CacheRows>> caches;  // by state; none: its value does not matter
  int64_t most = INT64_MAX;
  int positions = -1;
  for (const ProgramState& state : program.states) {
    caches.push_back(find_cache_rows(program, state));
    if (!caches.back() && !is_read(program, state.value)) continue;
    const std::string subject = fmt::format("state {}", printable_line(state.name));
    if (!caches.back())
      throw Error("session", subject,
                  "has no row for each position that an input gives, so positions cannot be "
                  "dropped; keep a copy of the states instead");
    const auto [dim, input] = *caches.back();
    if (positions >= 0 && input != positions)
      throw Error(
          "session", subject,
          fmt::format("takes its rows from input {}, want {} like the states before it; keep a "
                      "copy of the states instead",
                      printable_line(program.tensor(input).name),
                      printable_line(program.tensor(positions).name)));
    positions = input;
    most = std::min(most, program.tensor(state.value).shape[dim]);
  }
  if (most == INT64_MAX)
    throw Error("session", "truncate_states",
                "the program has no cache; want a language model that keeps one");
  if (count < 0 || count > most)
    throw Error("session", "truncate_states",
                fmt::format("got {} positions, want 0 to {}", count, most));
  for (size_t i = 0; i < values_.size(); ++i) {
    if (!caches[i]) continue;
    const size_t dim = caches[i]->dim;
    const std::span<const int64_t> shape = values_[i].shape();
    const int64_t row = product(shape.subspan(dim + 1));
    restart(values_[i], program, program.states[i], static_cast<size_t>(product(shape.first(dim))),
            static_cast<size_t>(count * row) * size_of(values_[i].dtype()));
  }
}

}  // namespace octet
