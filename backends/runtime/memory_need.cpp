// Linear in the size of the program: bodies form a tree, and each is compiled once, however many
// ops run it.
#include "backends/runtime/memory_need.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "backends/runtime/session.h"
#include "lowering/program/arena_plan.h"
#include "lowering/program/control.h"

namespace octet {
namespace {

size_t bytes_of(const ProgramTensor& tensor) {
  return static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype);
}

// Buffers by tensor; each lives from the step that makes it to the last that reads it.
class Lifetimes {
 public:
  void make(const Program& program, int index, size_t step) {
    const int at = static_cast<int>(step);
    buffers_.try_emplace(index, ArenaBuffer{bytes_of(program.tensor(index)), at, at});
  }
  void read(int index, size_t step) {
    const auto found = buffers_.find(index);
    if (found != buffers_.end()) found->second.last = static_cast<int>(step);
  }
  void drop(int index) { buffers_.erase(index); }

  // The most bytes that are in use at one step.
  size_t greatest(size_t steps) const {
    std::vector<size_t> begins(steps, 0), ends(steps, 0);
    for (const auto& [index, buffer] : buffers_) {
      size_t& begin = begins[static_cast<size_t>(buffer.first)];
      size_t& end = ends[static_cast<size_t>(buffer.last)];
      begin = saturating_add(begin, buffer.bytes);
      end = saturating_add(end, buffer.bytes);
    }
    size_t live = 0, most = 0;
    for (size_t step = 0; step < steps; ++step) {
      live = saturating_add(live, begins[step]);
      if (live == kNoMemory) return live;
      most = std::max(most, live);
      live -= ends[step];
    }
    return most;
  }

 private:
  std::map<int, ArenaBuffer> buffers_;
};

size_t between_segments(const Program& program) {
  Lifetimes lifetimes;
  for (size_t step = 0; step < program.segments.size(); ++step) {
    for (int index : program.segments[step].outputs) lifetimes.make(program, index, step);
    for (int index : program.segments[step].inputs) lifetimes.read(index, step);
  }
  for (int index : program.results()) lifetimes.drop(index);  // the caller's memory
  return lifetimes.greatest(program.segments.size());
}

size_t inside_segment(const Program& program, const Segment& segment) {
  Lifetimes lifetimes;
  for (size_t step = 0; step < segment.ops.size(); ++step) {
    const ProgramOp& op = program.op(segment.ops[step]);
    for (int index : op.outputs) lifetimes.make(program, index, step);
    for (int index : op.inputs) lifetimes.read(index, step);
  }
  for (int index : segment.outputs) lifetimes.drop(index);
  return lifetimes.greatest(segment.ops.size());
}

// The two blocks of each carried value.
size_t carried_bytes(const Program& program, const ProgramOp& op) {
  const bool is_while = op.kind == "while_loop";
  if (!is_while && op.kind != "scan") return 0;
  const size_t carried =
      is_while ? op.outputs.size() : static_cast<size_t>(op.integer("carried", 0));
  size_t bytes = 0;
  for (size_t k = 0; k < carried; ++k)
    for (int block = 0; block < 2; ++block)
      bytes = saturating_add(bytes, bytes_of(program.output(op, k)));
  return bytes;
}

// XNNPACK packs a constant for each op that reads it, others expand a stored one for each segment;
// oneDNN shares what it packs.
size_t copied_constants(const Program& program) {
  std::set<int> seen;
  size_t bytes = 0;
  for (const Segment& segment : program.segments) {
    if (segment.backend == "onednn") continue;
    std::set<int> in_segment;
    for (int op_index : segment.ops)
      for (int index : program.op(op_index).inputs) {
        if (index < 0 || !program.tensor(index).is_constant()) continue;
        const bool is_copied = segment.backend == "xnnpack" ||
                               (program.tensor(index).stored && in_segment.insert(index).second);
        if (is_copied && !seen.insert(index).second)
          bytes = saturating_add(bytes, bytes_of(program.tensor(index)));
      }
  }
  return bytes;
}

// What a kernel of the reference takes beside its tensors, the one that takes most: all elements in
// 64 bits.
size_t scratch_bytes(const Program& program) {
  size_t most = 0;
  for (const Segment& segment : program.segments) {
    if (segment.backend != "reference") continue;
    for (int op_index : segment.ops) {
      size_t bytes = 0;
      for (const std::vector<int>* indices :
           {&program.op(op_index).inputs, &program.op(op_index).outputs})
        for (int index : *indices)
          if (index >= 0)  // a shape is far from 2^60 elements
            bytes = saturating_add(
                bytes, sizeof(double) * static_cast<size_t>(program.tensor(index).numel()));
      most = std::max(most, bytes);
    }
  }
  for (const Program& body : program.bodies) most = std::max(most, scratch_bytes(body));
  return most;
}

}  // namespace

size_t saturating_add(size_t a, size_t b) {
  size_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kNoMemory : sum;
}

size_t held_bytes(const Program& program) {
  size_t bytes = saturating_add(between_segments(program), copied_constants(program));
  for (const Segment& segment : program.segments) {
    bytes = saturating_add(bytes, inside_segment(program, segment));
    if (segment.backend == kControl)
      bytes = saturating_add(bytes, carried_bytes(program, program.op(segment.ops.front())));
  }
  for (const Program& body : program.bodies) bytes = saturating_add(bytes, held_bytes(body));
  return bytes;
}

size_t peak_bytes(const Program& program) {
  size_t bytes = saturating_add(held_bytes(program), scratch_bytes(program));
  for (int index : program.given())
    if (index >= 0) bytes = saturating_add(bytes, bytes_of(program.tensor(index)));
  // An output that is an input or a constant is copied into separate memory.
  for (int index : program.results())
    bytes = saturating_add(bytes, bytes_of(program.tensor(index)));
  for (int index : program.inputs)  // Session may copy them (core/base/tensor.h)
    if (index >= 0 && program.tensor(index).dtype == DType::kBool)
      bytes = saturating_add(bytes, bytes_of(program.tensor(index)));
  return bytes;
}

size_t allowed_bytes(size_t memory_limit) {
  if (memory_limit != 0) return memory_limit;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : kNoMemory;
}

}  // namespace octet
