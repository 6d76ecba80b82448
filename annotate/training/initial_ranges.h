// Ranges that training begins with: those that a calibration of the same model found.
#pragma once

#include <string>
#include <vector>

#include "annotate/observed/observed_graph.h"

namespace octet {

struct InitialRanges {
  int taken = 0;  // groups that got a range
  // names of values whose fake-quants got none, and take their range from the data
  std::vector<std::string> others;
};

// state: observer_state_to_json() of the calibrated program, or a file's text; `source` is its name
// in messages. `training`: what prepare_qat_pt2e made of the same model with a quantizer of the
// same dtypes. A group is known by one of the values that it observes; a folded weight and
// convolution are those of the pair with its batch norm. Whatever the kind of observer was, its
// scale and zero point become the range; plain observers beside the fake-quants take the state of
// their kind. Scales per channel and per tensor are not made of each other. Throws Error("state",
// source, ...) for a damaged state, and when it fits no fake-quant at all.
InitialRanges set_initial_ranges(ObservedGraph& training, const std::string& state,
                                 const std::string& source);

}  // namespace octet
