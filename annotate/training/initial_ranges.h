// Starts quantization-aware training with the ranges that calibrating the same model found.
#pragma once

#include "annotate/observed/observed_graph.h"

namespace octet {

struct InitialRanges {
  int taken = 0;  // groups that got a range
  // names of values whose fake-quants got no range and take it from the data
  std::vector<std::string> others;
};

// state: observer_state_to_json() of the calibrated program, or a file's text; `source` names it in
// messages. training: the result of prepare_qat_pt2e for the same model and a quantizer with the
// same dtypes.
//
// A group is identified by one of the values that it observes; a folded weight and convolution
// correspond to those of the pair with its batch norm. Scale and zero point become the range,
// whatever the kind of observer was; plain observers beside the fake-quants take the state of
// observers of their kind. Scales per channel and per tensor are not converted into each other.
// Throws Error("state", source, ...) for a damaged state, and when it fits no fake-quant.
InitialRanges set_initial_ranges(ObservedGraph& training, const std::string& state,
                                 const std::string& source);

}  // namespace octet
