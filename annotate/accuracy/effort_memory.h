// What calibration and the short passes beside it have found out about a program, for other
// preparations of it with the same data: they get the same bits without the work.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "annotate/accuracy/held_out_check.h"
#include "annotate/accuracy/smooth.h"
#include "annotate/calibrate/observer_memory.h"

namespace octet {

struct EffortMemory {
  ObserverMemory observers = {};
  ChannelMemory channels = {};
  // batches held out, with the float program's outputs; by program
  std::map<std::string, std::shared_ptr<const HeldOutData>> held_out = {};
};

}  // namespace octet
