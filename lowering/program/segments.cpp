#include "lowering/program/segments.h"

#include <algorithm>

namespace octet {
namespace {

void add_once(std::vector<int>& list, int index) {
  if (std::find(list.begin(), list.end(), index) == list.end()) list.push_back(index);
}

}  // namespace

void connect_segments(Program& program) {
  for (Segment& segment : program.segments) {
    segment.inputs.clear();
    segment.outputs.clear();
  }
  std::vector<int> maker(program.tensors.size(), -1);
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int op : program.segments[s].ops)
      for (int index : program.op(op).outputs)
        maker[static_cast<size_t>(index)] = static_cast<int>(s);
  const auto give = [&](int index) {
    if (maker[static_cast<size_t>(index)] >= 0)
      add_once(program.segments[static_cast<size_t>(maker[static_cast<size_t>(index)])].outputs,
               index);
  };
  for (size_t s = 0; s < program.segments.size(); ++s)
    for (int op : program.segments[s].ops)
      for (int index : program.op(op).inputs) {
        if (index < 0 || program.tensor(index).is_constant() ||
            maker[static_cast<size_t>(index)] == static_cast<int>(s))
          continue;
        add_once(program.segments[s].inputs, index);
        give(index);
      }
  for (int index : program.results()) give(index);
}

}  // namespace octet
