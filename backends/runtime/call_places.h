// Locates the inputs and outputs of a segment with one op, for segments that run bodies on the
// memory of the enclosing program.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "lowering/program/program.h"
#include "lowering/program/stored_constant.h"

namespace octet {

class CallPlaces {
 public:
  // segment: of one op. The program must outlive this object.
  CallPlaces(const Program& program, const Segment& segment) {
    const ProgramOp& op = program.op(segment.ops.front());
    for (int index : op.inputs) {
      Place place;
      if (index >= 0) {
        place.position = position_in(segment.inputs, index);
        if (place.position < 0) place.own = constant_data(program.tensor(index));
      }
      sources_.push_back(std::move(place));
    }
    for (int index : op.outputs) {
      Place place{position_in(segment.outputs, index), {}};
      if (place.position < 0)
        place.own = Tensor::zeros(program.tensor(index).dtype, program.tensor(index).shape);
      targets_.push_back(std::move(place));
    }
  }

  // inputs, outputs: of the segment's run.
  void find(std::span<const Tensor> inputs, std::span<Tensor> outputs) {
    inputs_.clear();
    outputs_.clear();
    for (const Place& place : sources_)
      inputs_.push_back(place.position >= 0   ? inputs[static_cast<size_t>(place.position)].raw()
                        : place.own.defined() ? place.own.raw()
                                              : nullptr);
    for (const Place& place : targets_)
      outputs_.push_back(place.position >= 0 ? outputs[static_cast<size_t>(place.position)].raw()
                                             : place.own.raw());
  }

  // Addresses by input and output of the op; null when absent.
  std::span<const void* const> inputs() const { return inputs_; }
  std::span<void* const> outputs() const { return outputs_; }
  // The op's output that is output `position` of the segment; -1: none.
  int op_output(size_t position) const {
    const auto found = std::find_if(targets_.begin(), targets_.end(), [&](const Place& place) {
      return place.position == static_cast<int>(position);
    });
    return found == targets_.end() ? -1 : static_cast<int>(found - targets_.begin());
  }

 private:
  // A position in the segment's inputs or outputs; else -1, with `own` memory: a constant, or an
  // output that nobody reads.
  struct Place {
    int position = -1;
    Tensor own;
  };

  static int position_in(const std::vector<int>& list, int index) {
    const auto found = std::find(list.begin(), list.end(), index);
    return found == list.end() ? -1 : static_cast<int>(found - list.begin());
  }

  std::vector<Place> sources_, targets_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace octet
