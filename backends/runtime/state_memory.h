// The memory of a session's states: what a run reads, and where it writes the new values.
#pragma once

#include <span>
#include <vector>

#include "backends/reference/state_journal.h"
#include "core/base/tensor.h"
#include "lowering/program/program.h"

namespace octet {

class StateMemory {
 public:
  // Allocates the states and gives them their first values.
  void add_states(const Program& program);
  void reset(const Program& program);
  // Takes the other's values. Throws Error when the states differ in number, dtype or shape.
  void copy(const StateMemory& other);
  // Gives what caches have at positions from `count` on its first value. Throws Error, and changes
  // nothing, as Session::truncate_states.
  void truncate(const Program& program, int64_t count);

  // By position in Program::states. A state that the run writes in place has the same memory in
  // both; the new values of others become the values when the run has ended.
  std::span<const Tensor> values() const { return values_; }
  std::span<const Tensor> next() const { return next_; }
  void advance() { values_.swap(next_); }
  reference::StateJournal& journal() { return journal_; }

 private:
  std::vector<Tensor> values_;
  std::vector<Tensor> next_;
  reference::StateJournal journal_;
};

// Whether a run may write the state's new value over its value: an index_put on the reference makes
// it, whose kernel then writes only the indexed elements, and nothing else reads the value.
bool is_written_in_place(const Program& program, const ProgramState& state);

}  // namespace octet
