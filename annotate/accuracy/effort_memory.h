// Keeps what calibration and smoothing found out about a program, so that preparing it again with
// other settings and the same data gives the same bits in less time (`octet tune` does this).
#pragma once

#include "annotate/accuracy/held_out_check.h"
#include "annotate/accuracy/smooth.h"
#include "annotate/calibrate/observer_memory.h"

namespace octet {

struct EffortMemory {
  ObserverMemory observers = {};
  ChannelMemory channels = {};
  // by program: the batches held out and the float program's outputs for them
  std::map<std::string, std::shared_ptr<const HeldOutData>> held_out = {};
};

}  // namespace octet
